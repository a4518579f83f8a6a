# SPDX-License-Identifier: Apache-2.0
"""The oracle of `files calls=folders`: docs/file-system-promises.md in code.  Pure."""

from __future__ import annotations

from files_cases import UNIT, Entry, Step, fill
from files_oracle import Judgement, alien
from folders_cases import TAG, FolderCase, Place, Thing


class _Found:
    """A recovered tree: which thing each name leads to, and at what names a thing is."""

    def __init__(self, case: FolderCase, tree: dict[str, Entry], seen: Judgement) -> None:
        self.case, self.tree, self.seen = case, tree, seen
        root = case.things[0]
        self.leads: dict[str, Thing | None] = {"": root}
        self.names: dict[int, list[str]] = {0: [""]}
        for name in sorted(tree):  # a folder comes before what is in it
            folder, _, word = name.rpartition("/")
            above = self.leads.get(folder)
            self.leads[name] = None
            if above is not None:
                self._enter(name, (above.tag, word))

    def _enter(self, name: str, place: Place) -> None:
        """Rules 1 to 3: names that nobody made, names of others, bytes that nobody wrote."""
        entry, wrong = self.tree[name], self.seen.wrong
        able = [one for one in self.case.things if place in one.ever and one.kind == entry.kind]
        thing = self._who(entry, able)
        if thing is None and able and entry.kind == "file":
            wrong.append(f"{name}: begins with {entry.content[:UNIT]!r}, which no file does")
        elif thing is None:
            wrong.append(f"{name}: nobody made it")
        elif place not in thing.ever:
            wrong.append(f"{name}: leads to what never had this name")
        elif entry.kind == "file" and (at := alien(thing, entry.content)):
            wrong.append(f"{name}: {at}")
        if thing is not None:
            if entry.kind == "dir" and thing.tag in self.names:
                wrong.append(f"{name}: is {self.names[thing.tag][0]}, too; a folder has one name")
            self.leads[name] = thing
            self.names.setdefault(thing.tag, []).append(name)

    def _who(self, entry: Entry, able: list[Thing]) -> Thing | None:
        """By its tag; without one a new thing, if one alone had this name."""
        tags = {
            fill(one.tag, 0, UNIT) if one.kind == "file" else b"%d" % one.tag: one
            for one in self.case.things[1:]
            if one.kind == entry.kind
        }
        tag = entry.content[:UNIT] if entry.kind == "file" else dict(entry.xattrs).get(TAG, b"")
        born = [one for one in able if one.born]
        if any(tag):
            return tags.get(tag)
        return born[0] if born else None

    def at(self, place: Place) -> list[str]:
        """The names of a place: one, if its folder is there."""
        return [f"{name}/{place[1]}".lstrip("/") for name in self.names.get(place[0], [])]


def judge(case: FolderCase, tree: dict[str, Entry], *, promise: str) -> Judgement:
    """What the tree after recovery says of `case`; `promise` is posix, names or ordered."""
    seen = Judgement()
    found = _Found(case, tree, seen)
    for thing in case.things[1:]:
        if not thing.born:
            _still_there(thing, found)
    for sync in case.syncs:
        _kept(sync, found)
    if promise != "posix" and case.syncs[0].kind in ("fsync", "fsync-folder"):
        if promise == "ordered":
            _places(found)
        elif case.synced is not None:
            _named(case.synced, found)
    return seen


def _still_there(thing: Thing, found: _Found) -> None:
    """Rules 4 to 6, of what was durable before: it is somewhere, without a gap, and as it was."""
    names, home = found.names.get(thing.tag, []), found.case.homes[thing.tag]
    first = list(found.case.first)[thing.tag - 1]
    wrong = found.seen.wrong
    if thing.places and not names:
        wrong.append(f"{first}: is nowhere, and was never removed")
    if home not in found.case.gaps:
        wrong.extend(
            f"{name}: the name is gone, and at no time led nowhere"
            for name in found.at(home)
            if name not in found.tree
        )
    if thing.kind == "file" and not thing.changed:
        wrong.extend(
            f"{name}: no call changed it, and it has changed"
            for name in names
            if found.tree[name].content != thing.content
        )


def _kept(sync: Step, found: _Found) -> None:
    """Rules 7, 8 and 10."""
    case = found.case
    if sync.kind == "syncfs":
        _places(found)
        for thing in case.things[1:]:
            _content(thing, found)
    elif sync.kind == "fsync-folder":
        _entries(case.tag_of(sync.name), found)
    elif case.synced is not None:
        _content(case.synced, found)


def _content(thing: Thing, found: _Found) -> None:
    if thing.kind == "file":
        found.seen.broken.extend(
            f"{name}: its content is not what was synced"
            for name in found.names.get(thing.tag, [])
            if found.tree[name].content != thing.content
        )


def _entries(folder: int, found: _Found) -> None:
    """What is in a folder that was found is what was in it; wherever the folder is."""
    places = {place for thing in found.case.things for place in thing.ever if place[0] == folder}
    for place in sorted(places):
        _is_right(place, found)


def _is_right(place: Place, found: _Found) -> None:
    thing = found.case.at.get(place)
    for name in found.at(place):
        if thing is None and name in found.tree:
            found.seen.broken.append(f"{name}: was removed before the sync")
        elif thing is not None and found.leads.get(name) is not thing:
            found.seen.broken.append(f"{name}: does not lead where it did at the sync")


def _places(found: _Found) -> None:
    """Every name leads where it did."""
    for tag in range(len(found.case.things)):
        _entries(tag, found)
    for thing in found.case.things[1:]:
        if thing.places and not found.names.get(thing.tag):
            found.seen.broken.append(f"{found.case.name(min(thing.places))}: is not there")


def _named(thing: Thing, found: _Found) -> None:
    """Rule 9: the names of what was synced, and those of the new folders that lead to it."""
    for place in sorted(thing.ever):
        names = found.at(place)
        if place in thing.places:
            above = found.case.things[place[0]]
            if above.born:
                _named(above, found)
            if not names or any(found.leads.get(name) is not thing for name in names):
                name = found.case.name(place)
                found.seen.broken.append(f"{name}: does not lead to what was synced")
        else:
            found.seen.broken.extend(
                f"{name}: still leads to what was synced without this name"
                for name in names
                if found.leads.get(name) is thing
            )
