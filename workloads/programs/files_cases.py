# SPDX-License-Identifier: Apache-2.0
"""Cases for `files`: a few calls on a small tree, and one sync.

Nothing here touches a disk: `files` performs what a case says.

A case begins with a tree that is durable: files `a`, `b` (with an extended attribute) and `d/e`,
and the folder `d`.  The first 16 bytes of a file are its tag and never change, so that it is known
by any name.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

UNIT = 16
BLOCK = 4096  # what collapse, insert and clone are aligned to
SIZES = (700, 4096, 5000, 12288)
INITIAL = {"a": 6000, "b": 3000, "d/e": 9000}
MARKED = "b"
ATTRIBUTE = "user.k"

KINDS = (
    "create", "tmpfile", "write", "append", "truncate", "punch", "zero", "allocate", "mmap",
    "rename", "replace", "exchange", "link", "unlink", "symlink", "mkdir", "setxattr", "copy",
    "keep", "collapse", "insert", "clone", "delxattr", "sync-range",
)  # fmt: skip
NAME_KINDS = ("rename", "replace", "exchange", "link", "unlink", "symlink", "mkdir")
SHIFTS = ("collapse", "insert")
SYNCS = ("fsync", "fdatasync", "fsync-folder", "syncfs", "msync", "dsync-write")


def fill(tag: int, salt: int, length: int) -> bytes:
    """`length` bytes that say of which file and of which write they are."""
    unit = b"<%04d:%08d>\n" % (tag, salt)
    return (unit[:UNIT].ljust(UNIT, b".") * (length // UNIT + 1))[:length]


@dataclass
class Node:
    """A file, a folder or a symbolic link of a case.

    `versions` are a file's contents after each change, the first as it was in the beginning.
    `names` are those it has in the end, `ever` all that it had at any time.  `born`: the case
    made it; `shifted`: its blocks were moved, one after the other.
    """

    tag: int
    kind: str
    born: bool
    versions: list[bytes] = field(default_factory=lambda: [b""])
    names: set[str] = field(default_factory=set)
    ever: set[str] = field(default_factory=set)
    xattrs: dict[str, bytes] = field(default_factory=dict)
    target: str = ""
    touched: bool = False
    shifted: bool = False

    @property
    def content(self) -> bytes:
        return self.versions[-1]


@dataclass(frozen=True)
class Step:
    """One call: `kind`, the names it is about, and what stands at `offset` after it."""

    kind: str
    name: str
    other: str = ""
    offset: int = 0
    data: bytes = b""

    def __str__(self) -> str:
        names = f"{self.name}, {self.other}" if self.other else self.name or "."
        where = f" at {self.offset}" if self.offset else ""
        return f"{self.kind}({names}){where}" + f", {len(self.data)} bytes" * bool(self.data)


@dataclass(frozen=True)
class Entry:
    """What a name leads to after recovery."""

    kind: str
    content: bytes = b""
    xattrs: tuple[tuple[str, bytes], ...] = ()
    target: str = ""


class Case:
    """Case `number` of `seed`: `steps` calls, the last of which are its `syncs`.

    `wanted` are the kinds of calls that were drawn: one that finds no file to work on is left out.

    POSIX wants a second sync, of the folder, where a file is new; with `names` there is none.
    `without` are kinds of calls and of syncs that never come.
    """

    def __init__(
        self,
        seed: int,
        number: int,
        length: int,
        *,
        names: bool,
        without: frozenset[str] = frozenset(),
    ) -> None:
        self.able = [kind for kind in KINDS if kind not in without]
        self.syncing = [sync for sync in SYNCS if sync not in without]
        self.draw = random.Random(f"{seed}/{number}")
        self.nodes: list[Node] = []
        self.names: dict[str, Node] = {}
        self.vacated: set[str] = set()
        self.steps: list[Step] = []
        self._salt = 0
        for name, size in INITIAL.items():
            self._add(name, "file", fill(len(self.nodes), 0, size))
        self._add("d", "dir")
        self.names[MARKED].xattrs = {} if "delxattr" in without else {ATTRIBUTE: b"first"}
        self.first_xattrs = dict(self.names[MARKED].xattrs)
        kinds, sync = self._kinds(number, length)
        self.wanted = kinds
        for node in self.nodes:
            node.born = node.touched = False
        for kind in kinds:
            self._step(kind)
        self.syncs = [self._sync(sync)]
        self._mark(self.syncs[0])
        target = self.syncs[0].name
        alone = names and self.syncs[0].kind == "fsync"
        if not alone and target in self.names and self.names[target].born:
            self.syncs.append(Step("fsync-folder", target.rpartition("/")[0]))
        self.steps += self.syncs

    @staticmethod
    def numbers(seed: int, first: str, count: int, without: frozenset[str]) -> range:
        """`count` cases from the number `first`; from anywhere, if that is `seed`."""
        sequences = len(set(KINDS) - without) ** 2 * len(set(SYNCS) - without)
        begin = random.Random(seed).randrange(sequences) if first == "seed" else int(first)
        return range(begin, begin + count)

    def _mark(self, sync: Step) -> None:
        """One more call that the sync makes durable: a case not tried must not look done."""
        if sync.kind in ("fsync", "fdatasync"):
            self._content_step("write", sync.name)
        elif sync.kind in ("fsync-folder", "syncfs"):
            name = f"{sync.name}/mark".lstrip("/")
            self.steps.append(Step("mkdir", name))
            self._add(name, "dir")

    def _kinds(self, number: int, length: int) -> tuple[list[str], str]:
        """All sequences of two calls and a sync in turn; longer ones are drawn."""
        if length > 2:
            return self.draw.choices(self.able, k=length), self.draw.choice(self.syncing)
        index, sync = divmod(number, len(self.syncing))
        first, second = divmod(index % len(self.able) ** 2, len(self.able))
        return [self.able[second], self.able[first]][:length], self.syncing[sync]

    # --- what the calls do, to the model -------------------------------------------

    def _add(self, name: str, kind: str, content: bytes = b"", target: str = "") -> Node:
        node = Node(len(self.nodes), kind, born=True, target=target)
        node.versions = [content] if not self.steps and kind == "file" else [b""]
        node.touched = True
        self.nodes.append(node)
        self._name(node, name)
        return node

    def _name(self, node: Node, name: str) -> None:
        node.names.add(name)
        node.ever.add(name)
        self.names[name] = node

    def _unname(self, name: str) -> Node:
        node = self.names.pop(name)
        node.names.discard(name)
        return node

    def _files(self) -> list[str]:
        return sorted(name for name, node in self.names.items() if node.kind == "file")

    def _fresh(self) -> str:
        folder = self.draw.choice(["", "d/"])
        return f"{folder}n{len(self.steps)}"

    def _change(self, name: str, offset: int, data: bytes) -> None:
        node = self.names[name]
        old = node.content.ljust(offset, b"\0")
        node.versions.append(old[:offset] + data + old[offset + len(data) :])
        node.touched = True

    def _data(self, name: str, length: int) -> bytes:
        self._salt += 1
        return fill(self.names[name].tag, self._salt, length)

    def _step(self, kind: str) -> None:
        """Draws what `kind` is about, keeps it, and does it to the model."""
        files = self._files()
        if kind in ("create", "tmpfile"):
            name = self._fresh()
            data = fill(len(self.nodes), 0, self.draw.choice(SIZES))
            self.steps.append(Step(kind, name, data=data))
            node = self._add(name, "file")
            node.versions.append(data)
            return
        if kind == "symlink":
            name = self._fresh()
            self.steps.append(Step(kind, name, other="a"))
            self._add(name, "link", target="a")
            return
        if kind == "mkdir":
            name = self._fresh()
            self.steps.append(Step(kind, name))
            self._add(name, "dir")
            return
        if not files:
            return
        name = self.draw.choice(files)
        if kind in ("rename", "link", "replace", "exchange", "unlink"):
            self._names_step(kind, name, [other for other in files if other != name])
        else:
            self._content_step(kind, name)

    def _names_step(self, kind: str, name: str, others: list[str]) -> None:
        node = self.names[name]
        others = [other for other in others if self.names[other] is not node]
        if kind in ("replace", "exchange") and not others:
            kind = "rename"
        other = self._fresh() if kind in ("rename", "link") else ""
        if kind in ("replace", "exchange"):
            other = self.draw.choice(others)
        self.steps.append(Step(kind, name, other=other))
        node.touched = True
        if kind == "link":
            self._name(node, other)
        elif kind == "exchange":
            second = self._unname(other)
            self._unname(name)
            self._name(node, other)
            self._name(second, name)
            second.touched = True
        else:
            self._unname(name)
            self.vacated.add(name)
            if kind == "replace":
                self._unname(other).touched = True
            if kind != "unlink":
                self._name(node, other)

    def _content_step(self, kind: str, name: str) -> None:
        node = self.names[name]
        size = len(node.content)
        offset, length = self.draw.randrange(UNIT, max(UNIT + 1, size)), self.draw.choice(SIZES)
        if kind == "setxattr":
            value = b"%d" % len(self.steps)
            self.steps.append(Step(kind, name, other=ATTRIBUTE, data=value))
            node.xattrs[ATTRIBUTE] = value
            node.touched = True
        elif kind == "delxattr":
            marked = [one for one in self._files() if ATTRIBUTE in self.names[one].xattrs]
            if marked:
                name = self.draw.choice(marked)
                self.steps.append(Step(kind, name, other=ATTRIBUTE))
                del self.names[name].xattrs[ATTRIBUTE]
                self.names[name].touched = True
        elif kind in ("keep", "sync-range"):  # no byte of it changes, and nothing is promised
            self.steps.append(Step(kind, name, offset=offset, data=bytes(length)))
            node.touched = True
        elif kind in (*SHIFTS, "clone"):
            self._blocks_step(kind)
        elif kind == "truncate":
            offset = self.draw.choice([offset, size + length])
            self.steps.append(Step(kind, name, offset=offset))
            node.versions.append(node.content[:offset].ljust(offset, b"\0"))
            node.touched = True
        elif kind == "copy":
            # Of another file: within one the parts must not overlap.
            others = [one for one in self._files() if self.names[one] is not node]
            if others:
                source = self.draw.choice(others)
                self._bytes_step(kind, name, offset, self._part(source, UNIT, length), source)
        elif kind == "allocate":  # what is there stays, what is not becomes zeroes
            data = self._part(name, offset, length).ljust(length, b"\0")
            self._bytes_step(kind, name, offset, data)
        elif kind in ("punch", "zero"):
            self._bytes_step(kind, name, offset, bytes(min(length, size - offset)))
        elif kind == "mmap":  # within the file: a store beyond its end is none
            self._bytes_step(kind, name, offset, self._data(name, min(length, size - offset)))
        else:
            offset = size if kind == "append" else offset
            self._bytes_step(kind, name, offset, self._data(name, length))

    def _blocks_step(self, kind: str) -> None:
        """Whole blocks are taken out, put in, or shared; of files that are long enough."""
        files = self._files()
        long = [name for name in files if len(self.names[name].content) > 2 * BLOCK]
        if not long:
            return
        name = source = self.draw.choice(long)
        if kind == "clone":
            others = [one for one in files if self.names[one] is not self.names[source]]
            if not others:
                return
            name = self.draw.choice(others)
            self._bytes_step(kind, name, BLOCK, self._part(source, BLOCK, BLOCK), source)
            return
        node = self.names[name]
        self.steps.append(Step(kind, name, offset=BLOCK, data=bytes(BLOCK)))
        head, rest = node.content[:BLOCK], node.content[BLOCK:]
        middle = b"" if kind == "collapse" else bytes(BLOCK)
        node.versions.append(head + middle + (rest[BLOCK:] if kind == "collapse" else rest))
        node.touched = node.shifted = True

    def _part(self, name: str, offset: int, length: int) -> bytes:
        return self.names[name].content[offset : offset + length]

    def _bytes_step(self, kind: str, name: str, offset: int, data: bytes, source: str = "") -> None:
        if data:
            self.steps.append(Step(kind, name, other=source, offset=offset, data=data))
            self._change(name, offset, data)

    def _sync(self, kind: str) -> Step:
        """The last step; of files that the case has touched, if there is one."""
        files = self._files()
        touched = [name for name in files if self.names[name].touched] or files
        if kind == "syncfs" or not files:
            return Step("syncfs", "")
        if kind == "fsync-folder":
            return Step(kind, self.draw.choice(["", "d"]))
        name = self.draw.choice(touched)
        size = len(self.names[name].content)
        if kind == "msync" and size > UNIT:
            offset = self.draw.randrange(UNIT, size)
            data = self._data(name, min(size - offset, 5000))
            self._change(name, offset, data)
            return Step(kind, name, offset=offset, data=data)
        if kind == "dsync-write":
            offset = self.draw.randrange(UNIT, max(UNIT + 1, size + 1))
            data = self._data(name, self.draw.choice(SIZES))
            self._change(name, offset, data)
            return Step(kind, name, offset=offset, data=data)
        return Step("fsync" if kind == "msync" else kind, name)


def initial_tree(case: Case) -> dict[str, Entry]:
    """What is there before the case begins."""
    tree = {"d": Entry("dir")}
    for node, name in zip(case.nodes, INITIAL, strict=False):
        xattrs = tuple(case.first_xattrs.items()) if name == MARKED else ()
        tree[name] = Entry("file", node.versions[0], xattrs)
    return tree


def final_tree(case: Case) -> dict[str, Entry]:
    """What is there when all of it was done, and nothing was lost."""
    return {
        name: Entry(node.kind, node.content, tuple(sorted(node.xattrs.items())), node.target)
        for name, node in case.names.items()
    }
