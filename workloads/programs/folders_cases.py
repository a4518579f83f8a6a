# SPDX-License-Identifier: Apache-2.0
"""Cases of `files calls=folders`: calls that make, move and remove folders, and one sync.

Nothing here touches a disk.  A case begins with the durable tree INITIAL.  The first bytes of a
file are its tag, and each folder of INITIAL has one in an extended attribute: both are known by
any name.  A name is a place: a folder, whatever this is called, and a word in it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from files_cases import SIZES, UNIT, Entry, Step, fill

INITIAL = {"a": 5000, "d": 0, "d/e": 9000, "f": 0, "g": 0, "g/h": 0, "g/i": 3000}  # 0: a folder
TAG = "user.tag"
KINDS = (
    "mkdir", "rmdir", "move", "over", "exchange", "create", "rename", "replace", "link", "unlink",
)  # fmt: skip
SYNCS = ("fsync", "fdatasync", "fsync-folder", "syncfs")

Place = tuple[int, str]
"""The tag of a folder, and a word in it.  The folder of the case has the tag 0."""


@dataclass
class Thing:
    """A file or a folder.  `places` are its names in the end, `ever` all that it had.

    `versions` are a file's contents after each change; `born`: the case made it.
    """

    tag: int
    kind: str
    born: bool
    versions: list[bytes] = field(default_factory=lambda: [b""])
    places: set[Place] = field(default_factory=set)
    ever: set[Place] = field(default_factory=set)
    changed: bool = False
    shifted: bool = False  # no call here moves blocks

    @property
    def content(self) -> bytes:
        return self.versions[-1]


class FolderCase:
    """Case `number` of `seed`: `steps`, the last of which are its `syncs`.

    POSIX wants the folders above a new one synced, too; with `names` an fsync does without.
    `first` is the tree before, `homes` where each thing of it is, by its tag.  `gaps` are the
    places that were empty at some time.
    """

    def __init__(self, seed: int, number: int, length: int, *, names: bool) -> None:
        self.draw = random.Random(f"folders/{seed}/{number}")
        self.things = [Thing(0, "dir", born=False)]
        self.at: dict[Place, Thing] = {}
        self.gaps: set[Place] = set()
        self.steps: list[Step] = []
        for name, size in INITIAL.items():
            thing = self._add(self._place(name), "file" if size else "dir")
            thing.versions, thing.born = [fill(thing.tag, 0, size)], False
        self.first = self.tree()
        self.homes = {thing.tag: place for place, thing in self.at.items()}
        self.wanted, sync = self._kinds(number, length)
        for kind in self.wanted:
            self._step(kind)
        self.syncs = [self._sync(sync)]
        self.synced = self.at[self._place(self.syncs[0].name)] if self.syncs[0].name else None
        alone = names and self.syncs[0].kind in ("fsync", "fsync-folder")
        if self.synced is not None and not alone:
            self._sync_above(self.syncs[0].name)
        self.steps += self.syncs

    @staticmethod
    def numbers(seed: int, first: str, count: int) -> range:
        """`count` cases from the number `first`; from anywhere, if that is `seed`."""
        sequences = len(KINDS) ** 2 * len(SYNCS)
        begin = random.Random(seed).randrange(sequences) if first == "seed" else int(first)
        return range(begin, begin + count)

    def _kinds(self, number: int, length: int) -> tuple[list[str], str]:
        """All sequences of two calls and a sync in turn; longer ones are drawn."""
        if length > 2:
            return self.draw.choices(KINDS, k=length), self.draw.choice(SYNCS)
        index, sync = divmod(number, len(SYNCS))
        first, second = divmod(index % len(KINDS) ** 2, len(KINDS))
        return [KINDS[second], KINDS[first]][:length], SYNCS[sync]

    # --- the tree ------------------------------------------------------------------

    def _place(self, name: str) -> Place:
        """Of a name that is there, or whose folder is."""
        folder, _, word = name.rpartition("/")
        return self.tag_of(folder), word

    def tag_of(self, name: str) -> int:
        """Of the folder or file that a name leads to in the end."""
        return self.at[self._place(name)].tag if name else 0

    def name(self, place: Place) -> str:
        """What leads to a place, now."""
        folder, word = place
        above = self.name(next(iter(self.things[folder].places))) if folder else ""
        return f"{above}/{word}".lstrip("/")

    def tree(self) -> dict[str, Entry]:
        """What is there now, by name."""
        return {
            self.name(place): Entry("file", thing.content)
            if thing.kind == "file"
            else Entry("dir", xattrs=() if thing.born else ((TAG, b"%d" % thing.tag),))
            for place, thing in self.at.items()
        }

    def _add(self, place: Place, kind: str) -> Thing:
        thing = Thing(len(self.things), kind, born=True)
        self.things.append(thing)
        self._put(thing, place)
        return thing

    def _put(self, thing: Thing, place: Place) -> None:
        thing.places.add(place)
        thing.ever.add(place)
        self.at[place] = thing

    def _take(self, place: Place) -> Thing:
        thing = self.at.pop(place)
        thing.places.discard(place)
        return thing

    def _all(self, kind: str) -> list[Place]:
        return sorted(place for place, thing in self.at.items() if thing.kind == kind)

    def _empty(self, folder: Thing) -> bool:
        return all(place[0] != folder.tag for place in self.at)

    def _below(self, folder: int, thing: Thing) -> bool:
        """Whether a folder, by its tag, is `thing` or lies in it."""
        while folder and folder != thing.tag:
            folder = next(iter(self.things[folder].places))[0]
        return folder == thing.tag

    def _fresh(self, outside: Thing | None = None) -> Place:
        """A new name in a folder, which is not below `outside`."""
        folders = [0, *(self.at[place].tag for place in self._all("dir"))]
        able = [tag for tag in folders if outside is None or not self._below(tag, outside)]
        return self.draw.choice(able), f"n{len(self.steps)}"

    # --- the calls -----------------------------------------------------------------

    def _step(self, kind: str) -> None:
        """Draws what `kind` is about, keeps it, and does it to the model; or nothing can be."""
        if kind == "mkdir":
            self._make_folder(self._fresh())
        elif kind == "create":
            place = self._fresh()
            data = fill(len(self.things), 0, self.draw.choice(SIZES))
            self.steps.append(Step(kind, self.name(place), data=data))
            self._add(place, "file").versions.append(data)
        elif kind in ("rmdir", "unlink"):
            able = self._all("file" if kind == "unlink" else "dir")
            able = [at for at in able if kind == "unlink" or self._empty(self.at[at])]
            if able:
                place = self.draw.choice(able)
                self.steps.append(Step(kind, self.name(place)))
                self._take(place)
                self.gaps.add(place)
        else:
            self._move(kind)

    def _make_folder(self, place: Place) -> None:
        self.steps.append(Step("mkdir", self.name(place)))
        self._add(place, "dir")

    def _move(self, kind: str) -> None:
        pairs = [
            (place, other)
            for place in self._all("dir" if kind in ("move", "over", "exchange") else "file")
            for other in self._targets(kind, self.at[place])
        ]
        if not pairs:
            return
        place, other = self.draw.choice(pairs)
        thing = self.at[place]
        self.steps.append(Step(kind, self.name(place), other=self.name(other)))
        if kind == "link":
            self._put(thing, other)
            return
        self._take(place)
        second = self._take(other) if other in self.at else None
        self._put(thing, other)
        if kind == "exchange" and second is not None:
            self._put(second, place)
        else:
            self.gaps.add(place)

    def _targets(self, kind: str, thing: Thing) -> list[Place]:
        """Where `thing` can go by a call of this kind."""
        if kind in ("move", "rename", "link"):
            return [self._fresh(outside=thing)]
        others = [(place, other) for place, other in sorted(self.at.items()) if other is not thing]
        apart = [
            (place, other)
            for place, other in others
            if not self._below(place[0], thing)
            and not any(self._below(at[0], other) for at in thing.places)
            and self._tells(thing, place)
            and all(self._tells(other, at) for at in thing.places)
        ]
        if kind == "exchange":
            return [place for place, _ in apart]
        wanted = "dir" if kind == "over" else "file"
        return [
            place
            for place, other in apart
            if other.kind == wanted and (wanted == "file" or self._empty(other))
        ]

    def _tells(self, thing: Thing, place: Place) -> bool:
        """A new thing may have no tag yet: a name of another new one would not tell which it is."""
        return not thing.born or not any(
            one.born and one is not thing and place in one.ever for one in self.things
        )

    # --- the syncs -----------------------------------------------------------------

    def _sync(self, kind: str) -> Step:
        """The sync; before it one more call, so that a case not tried does not look done."""
        files = self._all("file")
        if kind in ("fsync", "fdatasync") and files:
            place = self.draw.choice(files)
            thing, data = self.at[place], fill(self.at[place].tag, 1, 700)
            old = thing.content
            thing.versions.append(old[:UNIT] + data + old[UNIT + len(data) :])
            thing.changed = True
            self.steps.append(Step("write", self.name(place), offset=UNIT, data=data))
            return Step(kind, self.name(place))
        tag = 0
        if kind == "fsync-folder":
            tag = self.draw.choice([0, *(self.at[place].tag for place in self._all("dir"))])
        self._make_folder((tag, "mark"))
        if kind != "fsync-folder":
            return Step("syncfs", "")
        return Step(kind, self.name((tag, "mark")).rpartition("/")[0])

    def _sync_above(self, name: str) -> None:
        """The folders that lead to what is new."""
        while name and self.at[self._place(name)].born:
            name = name.rpartition("/")[0]
            self.syncs.append(Step("fsync-folder", name))
