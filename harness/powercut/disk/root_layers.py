# SPDX-License-Identifier: Apache-2.0
"""One tar out of a root file system's layers: a folder, a tar, or an OCI image layout.

Everything here reads: names, links and whiteouts are resolved in memory, and nothing is made on the
host but the tar.  Whatever a layer says stays below its root: names with `..` are refused,
links lead to what they mean inside.  Device nodes, sockets and FIFOs are left out, as the guest has
a /dev of its own; hard links become files.

OCI image layout: github.com/opencontainers/image-spec, image-layout.md and layer.md (whiteouts:
`.wh.NAME` removes NAME of lower layers, `.wh..wh..opq` all that lower layers have in its folder).
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
import tarfile
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from powercut.brought import brought
from powercut.closing import Closing
from powercut.model.errors import UsageError
from powercut.model.named_path import openable
from powercut.model.printable import parse_json
from powercut.sandbox.archive import Archive, ArchiveLimits, open_archive

SKELETON: Final = ("dev", "proc", "sys", "tmp", "run", "var/tmp", "mnt")
"""Folders that a guest mounts something on."""

_MEMBERS_MAX: Final = 1_000_000
_BYTES_MAX: Final = 16 << 30
_LINKS_MAX: Final = 40
_TIME_OF_FILES_S: Final = 946_684_800  # 2000: tools refuse times that no archive can hold
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH  # a root is read-only in any case
_OWNER_MAX: Final = (1 << 32) - 2  # chown(2) takes -1 for: as it is
_WHITEOUT: Final = ".wh."
_OPAQUE: Final = ".wh..wh..opq"
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")

_TOO_MUCH: Final = f"a root of more than {_MEMBERS_MAX:,} files or {_BYTES_MAX >> 30} GiB"


@dataclass(frozen=True)
class _Entry:
    """A member of the tar to be: its header, and where the bytes of a file are."""

    info: tarfile.TarInfo
    tar: Archive | None = None
    path: Path | None = None

    def open(self) -> IO[bytes] | None:
        if self.path is not None:
            return self.path.open("rb")
        return self.tar.open(self.info) if self.tar is not None else None


class _Node:
    """A name, and those below it; without an entry it is only a part of theirs."""

    __slots__ = ("below", "entry")

    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.entry: _Entry | None = None


class RootTree(Closing):
    """The files of a root, layer above layer; a context manager, as it keeps tars open."""

    def __init__(self, scratch: Path | None = None) -> None:
        """`scratch` gets what compressed tars hold."""
        self._scratch = scratch or Path(tempfile.gettempdir())
        self._root = _Node()
        self._count = 0
        self._bytes = 0
        self._stack = ExitStack()

    def close(self) -> None:
        self._stack.close()

    def add(self, root: Path, *, from_outside: bool = True) -> None:
        """The layers in `root`; those `from_outside` are read in a sandbox, or not at all.

        Raises UsageError for what is no root file system, HostError.
        """
        try:
            if (root / "index.json").is_file():
                for layer in _oci_layers(root):
                    self._add_tar(layer, from_outside)
            elif root.is_dir():
                self.add_folder(root)
            else:
                self._add_tar(root, from_outside)
        except (OSError, tarfile.TarError, EOFError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"{root}: no root file system can be read there: {why}",
                hint="workload.root is a folder, a tar, an ext4 image or a folder with index.json "
                "(OCI image layout)",
            ) from error

    def add_folder(self, folder: Path, below: str = "", *, exact: bool = False) -> None:
        """A folder of the host, whose links are not followed.

        Times do not count, nor who besides their owner may write to a file: both differ between two
        copies of the same.  In an `exact` one all of it counts.
        """
        for path in sorted(folder.rglob("*")) if exact else brought(folder):
            info = _info_of(path, str(PurePosixPath(below, path.relative_to(folder))))
            if info is not None:
                if not exact:
                    info.mtime, info.mode = _TIME_OF_FILES_S, info.mode & ~_OTHERS_WRITE
                self._put(_Entry(info, path=path if info.isreg() else None))

    def add_empty(self, name: str) -> None:
        """A folder in which there is nothing yet."""
        self._make_folders(name)

    def write(self, file: IO[bytes], *, skeleton: bool = True) -> str:
        """Writes the tar; its SHA-256.  `skeleton` makes the folders that a guest needs."""
        for name in SKELETON if skeleton else ():
            self._make_folders(name)
        out = _Hashing(file)
        with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
            for name, entry in self._entries():
                with ExitStack() as stack:
                    data = entry.open()
                    if data is not None:
                        stack.enter_context(data)
                    tar.addfile(_plain(entry.info, name), data)
        return out.digest.hexdigest()

    def read(self, name: str) -> bytes:
        """The bytes of a file; empty if there is none of that name, or it is none."""
        entry = self._entry_at(self._resolved(name))
        data = entry.open() if entry is not None and entry.info.isreg() else None
        if data is None:
            return b""
        with data:
            return data.read()

    def remove(self, name: str) -> None:
        """Leaves out what `name` is, and all that is below it."""
        parts = self._resolved(name)
        if not parts:
            self._empty(self._root)
        elif (above := self._node_at(parts[:-1])) and (node := above.below.pop(parts[-1], None)):
            self._count -= sum(1 for _ in _entries_below(node, ""))

    def owners(self) -> Iterator[tuple[str, int, int]]:
        """What does not belong to root: its name, its owner and its group."""
        for name, entry in self._entries():
            if entry.info.uid or entry.info.gid:
                yield name, entry.info.uid, entry.info.gid

    @property
    def size(self) -> int:
        return sum(entry.info.size for _, entry in self._entries())

    def __len__(self) -> int:
        return self._count

    def _entries(self) -> list[tuple[str, _Entry]]:
        """All by their names, folders before what is in them."""
        return sorted(_entries_below(self._root, ""), key=lambda one: one[0])

    def _add_tar(self, path: Path, from_outside: bool) -> None:
        limits = ArchiveLimits(members=_MEMBERS_MAX, size=_BYTES_MAX)
        # Open until the tree is written.
        tar = self._stack.enter_context(
            open_archive(path, limits, self._scratch, from_outside=from_outside)
        )
        members = [(_clean(info.name, path), _owned(info, path)) for info in tar]
        for name, _ in members:
            folder, _, last = name.rpartition("/")
            if last == _OPAQUE:
                if (node := self._node_at(self._resolved(folder))) is not None:
                    self._empty(node)
            elif last.startswith(_WHITEOUT):
                self.remove(f"{folder}/{last.removeprefix(_WHITEOUT)}".strip("/"))
        for name, info in members:
            if name and not name.rpartition("/")[2].startswith(_WHITEOUT):
                self._add_member(tar, name, info, path)

    def _add_member(self, tar: Archive, name: str, info: tarfile.TarInfo, path: Path) -> None:
        if info.islnk():
            meant = self._entry_at(self._resolved(_clean(info.linkname, path)))
            if meant is None:
                raise UsageError(f"{path}: {name} is a link to {info.linkname}, which is not there")
            copy = _plain(meant.info, name)
            copy.offset_data = meant.info.offset_data
            self._put(_Entry(copy, meant.tar, meant.path))
        elif info.isreg() or info.isdir() or info.issym():
            info.name = name
            self._put(_Entry(info, tar if info.isreg() else None))

    def _put(self, entry: _Entry) -> None:
        parts = self._resolved(entry.info.name)
        node = self._made(parts[:-1])
        if parts:
            node = node.below.setdefault(parts[-1], _Node())
        there = node.entry
        if entry.info.isdir() and there is not None and there.info.issym():
            return  # `bin` may be a link to usr/bin, and a folder in the next layer
        if not entry.info.isdir() and there is not None and there.info.isdir():
            self._empty(node)  # only a folder can have something below it
        self._set(node, entry)
        self._bytes += entry.info.size
        if self._bytes > _BYTES_MAX:
            raise UsageError(_TOO_MUCH)

    def _set(self, node: _Node, entry: _Entry) -> None:
        self._count += node.entry is None
        node.entry = entry
        if self._count > _MEMBERS_MAX:
            raise UsageError(_TOO_MUCH)

    def _made(self, parts: Sequence[str]) -> _Node:
        """The folder `parts`, which are resolved, made where it is not there."""
        node = self._root
        for end, part in enumerate(parts, 1):
            node = node.below.setdefault(part, _Node())
            if node.entry is None:
                info = tarfile.TarInfo("/".join(parts[:end]))
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                self._set(node, _Entry(info))
        return node

    def _make_folders(self, name: str) -> None:
        parts = name.split("/")
        for end in range(1, len(parts) + 1):
            self._made(self._resolved("/".join(parts[:end])))

    def _empty(self, node: _Node) -> None:
        self._count -= sum(1 for below in node.below.values() for _ in _entries_below(below, ""))
        node.below = {}

    def _node_at(self, parts: Iterable[str]) -> _Node | None:
        node: _Node | None = self._root
        for part in parts:
            node = node.below.get(part) if node is not None else None
        return node

    def _entry_at(self, parts: Iterable[str]) -> _Entry | None:
        node = self._node_at(parts)
        return node.entry if node is not None else None

    def _resolved(self, name: str) -> list[str]:
        """`name` with the links among its folders replaced by what they mean inside the root."""
        left = deque(name.split("/"))
        done: list[str] = []
        nodes: list[_Node | None] = [self._root]
        for _ in range(_LINKS_MAX + name.count("/")):
            if len(left) <= 1:
                break
            part = left.popleft()
            if part == "..":
                if done:
                    done.pop()
                    nodes.pop()
                continue
            if part in ("", "."):
                continue
            above = nodes[-1]
            node = above.below.get(part) if above is not None else None
            if node is None or node.entry is None or not node.entry.info.issym():
                done.append(part)
                nodes.append(node)
                continue
            target = node.entry.info.linkname
            if target.startswith("/"):
                done, nodes = [], [self._root]
            left.extendleft(reversed(target.split("/")))
        else:
            raise UsageError(f"{name}: too many links on the way to it")
        return [part for part in (*done, *left) if part]


def _entries_below(node: _Node, name: str) -> Iterator[tuple[str, _Entry]]:
    left = [(name, node)]
    while left:
        at, node = left.pop()
        if node.entry is not None:
            yield at, node.entry
        left += [(f"{at}/{part}" if at else part, below) for part, below in node.below.items()]


def _oci_layers(root: Path) -> Iterator[Path]:
    """The layers of an image, the lowest first, each as its digest says."""
    try:
        document = parse_json(openable(root / "index.json").read_bytes())
        for _ in range(_LINKS_MAX):
            if "layers" in document:
                for layer in document["layers"]:
                    yield _blob(root, layer)
                return
            wanted = document["manifests"]
            fitting = [one for one in wanted if _is_for_us(one.get("platform"))] or wanted
            document = parse_json(_blob(root, fitting[0]).read_bytes())
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{root}: index.json is none of an OCI image layout: {error!r}") from error
    raise UsageError(f"{root}: index.json leads to no manifest")


def _is_for_us(platform: Any) -> bool:
    return platform is None or (platform["os"], platform["architecture"]) == ("linux", "amd64")


def _blob(root: Path, descriptor: Any) -> Path:
    found = _DIGEST.fullmatch(descriptor["digest"])
    if found is None:
        raise ValueError(f"digest {descriptor['digest']!r}: it should be sha256:...")
    path = root / "blobs" / "sha256" / found.group(1)
    with openable(path).open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != found.group(1):
            raise UsageError(f"{path}: it is not what its digest says", hint="fetch it again")
    return path


def _clean(name: str, where: Path) -> str:
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in name:
        raise UsageError(f"{where}: a member leads out of the root: {name!r}")
    return "/".join(parts)


def _owned(info: tarfile.TarInfo, where: Path) -> tarfile.TarInfo:
    if not (0 <= info.uid <= _OWNER_MAX and 0 <= info.gid <= _OWNER_MAX):
        raise UsageError(f"{where}: {info.name} belongs to {info.uid}:{info.gid}, which are none")
    return info


def _info_of(path: Path, name: str) -> tarfile.TarInfo | None:
    status = path.lstat()
    info = tarfile.TarInfo(name)
    info.mode, info.mtime = stat.S_IMODE(status.st_mode), int(status.st_mtime)
    if stat.S_ISDIR(status.st_mode):
        info.type = tarfile.DIRTYPE
    elif stat.S_ISLNK(status.st_mode):
        info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
    elif stat.S_ISREG(status.st_mode):
        info.size = status.st_size
    else:
        return None
    return info


def _plain(info: tarfile.TarInfo, name: str) -> tarfile.TarInfo:
    """The header without extensions and names of owners, readable for the user who packs it."""
    plain = tarfile.TarInfo(name)
    plain.type, plain.linkname, plain.size = info.type, info.linkname, info.size
    if not (info.isdir() or info.issym()):
        plain.type = tarfile.REGTYPE
    plain.mode = info.mode | (0o700 if info.isdir() else 0o400)
    plain.mtime, plain.uid, plain.gid = int(info.mtime), info.uid, info.gid
    return plain


class _Hashing(io.RawIOBase):
    """Writes on, and keeps the digest."""

    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self.digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return self._file.write(data)
