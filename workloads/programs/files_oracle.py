# SPDX-License-Identifier: Apache-2.0
"""The oracle of `files`: docs/file-system-promises.md in code, rule by rule.  Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from files_cases import BLOCK, INITIAL, UNIT, Case, Entry, Node, Step, fill


@dataclass
class Judgement:
    """Of one recovered case: `broken` promises of its sync; what is `wrong` whatever was synced."""

    broken: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def judge(case: Case, tree: dict[str, Entry], *, names: bool) -> Judgement:
    """What the tree after recovery says of `case`; `names` asks for more than POSIX (rule 9)."""
    seen = Judgement()
    leads = {name: _node_of(case, name, entry) for name, entry in tree.items()}
    for name, entry in tree.items():
        _always(case, name, entry, leads[name], seen)
    for node in case.nodes:
        _still_there(case, node, tree, leads, seen)
    for sync in case.syncs:
        if sync.kind == "syncfs":
            _all_of_it(case, tree, leads, seen)
        elif sync.kind == "fsync-folder":
            _folder(case, sync.name, tree, leads, seen)
        else:
            _file(case, sync, tree, leads, seen)
            if names and sync.kind == "fsync":
                _names(case.names[sync.name], leads, seen)
    return seen


def _node_of(case: Case, name: str, entry: Entry) -> Node | None:
    """Who is there: known by its tag, or, without content, as the only one that can be."""
    able = [node for node in case.nodes if name in node.ever and node.kind == entry.kind]
    if entry.kind != "file":
        return able[0] if able else None
    tag = entry.content[:UNIT]
    for node in case.nodes:
        if node.kind == "file" and tag == fill(node.tag, 0, UNIT):
            return node
    hollow = [node for node in able if node.born] if not any(tag) else []
    return hollow[0] if len(hollow) == 1 else None


def _always(case: Case, name: str, entry: Entry, node: Node | None, seen: Judgement) -> None:
    """Rules 1 to 3: nobody's names, names of others, bytes that nobody wrote there."""
    able = [one for one in case.nodes if name in one.ever]
    if not able:
        seen.wrong.append(f"{name}: nobody made it")
        return
    if entry.kind not in {one.kind for one in able}:
        seen.wrong.append(f"{name}: is a {entry.kind}")
        return
    if entry.kind == "link" and entry.target != able[0].target:
        seen.wrong.append(f"{name}: leads to {entry.target!r}")
    if entry.kind != "file":
        return
    if node is None:
        if any(entry.content[:UNIT]) or not any(one.born for one in able):
            seen.wrong.append(f"{name}: begins with {entry.content[:UNIT]!r}, which no file does")
        return
    if name not in node.ever:
        seen.wrong.append(f"{name}: leads to a file that never had this name")
    elif at := alien(node, entry.content):
        seen.wrong.append(f"{name}: {at}")


def alien(node: Node, content: bytes) -> str:
    """Where `content` has a byte that the file never had there; empty if nowhere."""
    if content in node.versions:
        return ""
    longest = max(len(version) for version in node.versions)
    if len(content) > longest:
        return f"has {len(content)} bytes, and never had more than {longest}"
    # Blocks move one after the other, and leave holes until they have arrived.  What is written
    # after a move goes to the block itself: where the move is lost, it is at the place of before.
    shortest = UNIT if node.shifted else min(len(version) for version in node.versions)
    for at, byte in enumerate(content):
        if byte == 0 and at >= shortest:  # not written yet; a byte of somebody else's is not 0
            continue
        places = range(at % BLOCK, longest, BLOCK) if node.shifted else (at,)
        had = (version[place : place + 1] for version in node.versions for place in places)
        if bytes([byte]) not in had:
            return f"byte {at} is {byte:#04x}, which was never written there"
    return ""


def _still_there(
    case: Case, node: Node, tree: dict[str, Entry], leads: dict[str, Node | None], seen: Judgement
) -> None:
    """Rules 4 to 6: what was durable before and was not removed is there; untouched as it was."""
    if node.born:
        return
    mine = [name for name, other in leads.items() if other is node]
    if node.names and not mine:
        seen.wrong.append(f"{' or '.join(sorted(node.ever))}: is nowhere, and was never removed")
    for name in sorted(node.ever - case.vacated):
        first = next(one for one in case.nodes if name in one.ever)
        if first is node and not node.born and name in (*INITIAL, "d") and name not in tree:
            seen.wrong.append(f"{name}: the name is gone, and at no time led nowhere")
    if not node.touched and node.kind == "file":
        seen.wrong += [
            f"{name}: nobody touched it, and it has changed"
            for name in mine
            if (tree[name].content, dict(tree[name].xattrs)) != (node.content, node.xattrs)
        ]


def _exact(name: str, node: Node, entry: Entry, seen: Judgement, *, xattrs: bool) -> None:
    if entry.content != node.content:
        seen.broken.append(f"{name}: its content is not what was synced")
    if xattrs and dict(entry.xattrs) != node.xattrs:
        seen.broken.append(f"{name}: its extended attributes are not what was synced")


def _file(
    case: Case, sync: Step, tree: dict[str, Entry], leads: dict[str, Node | None], seen: Judgement
) -> None:
    """Rule 7: by whatever name the file is found, it has what was synced."""
    node = case.names[sync.name]
    for name, other in leads.items():
        if other is not node:
            continue
        if sync.kind in ("fsync", "fdatasync"):
            _exact(name, node, tree[name], seen, xattrs=sync.kind == "fsync")
        elif tree[name].content[sync.offset :][: len(sync.data)] != sync.data:
            seen.broken.append(f"{name}: what {sync.kind} wrote is not there")


def _names(node: Node, leads: dict[str, Node | None], seen: Judgement) -> None:
    """Rule 9: an fsync of a file makes its names durable, too."""
    seen.broken += [
        f"{name}: does not lead to the file that was synced"
        for name in sorted(node.names)
        if leads.get(name) is not node
    ]
    seen.broken += [
        f"{name}: still leads to the file, which was synced without this name"
        for name in sorted(node.ever - node.names)
        if leads.get(name) is node
    ]


def _folder(
    case: Case, folder: str, tree: dict[str, Entry], leads: dict[str, Node | None], seen: Judgement
) -> None:
    """Rule 8: the folder's entries are those that were synced."""
    ever = {name for node in case.nodes for name in node.ever}
    for name in sorted(ever):
        if name.rpartition("/")[0] != folder:
            continue
        node = case.names.get(name)
        if node is None and name in tree:
            seen.broken.append(f"{name}: was removed before the folder was synced")
        elif node is not None and name not in tree:
            seen.broken.append(f"{name}: was in the folder when that was synced")
        elif node is not None and leads[name] is not node and not _hollow(node, tree[name]):
            seen.broken.append(f"{name}: leads to another file than when the folder was synced")


def _hollow(node: Node, entry: Entry) -> bool:
    """Whether a name leads to a new file whose content nobody has synced yet."""
    return node.born and entry.kind == node.kind and not any(entry.content[:UNIT])


def _all_of_it(
    case: Case, tree: dict[str, Entry], leads: dict[str, Node | None], seen: Judgement
) -> None:
    """Rule 10: after syncfs everything is as it was."""
    for name in sorted(set(case.names) | set(tree)):
        node = case.names.get(name)
        if node is None:
            seen.broken.append(f"{name}: was removed before syncfs")
        elif name not in tree or leads[name] is not node:
            seen.broken.append(f"{name}: does not lead where it did at syncfs")
        elif node.kind == "file":
            _exact(name, node, tree[name], seen, xattrs=True)
