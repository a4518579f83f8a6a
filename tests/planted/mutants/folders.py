# SPDX-License-Identifier: Apache-2.0
"""Planted in the crash model of captured folders."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.suites import FOLDERS

_P = "harness/powercut/crash"
folder = planter("folder", FOLDERS)

MUTANTS: tuple[Mutant, ...] = (
    *folder(
        f"{_P}/folder.py",
        (
            "truncation-forgotten",
            "                last = max([last, *beyond])",
            "                last = max([last])",
            "what is written beyond a truncation survives without it",
        ),
        (
            "truncated-block-moves",
            "at < index and block_end(size) < self._end_of(row)",
            "at < index and size < self._end_of(row)",
            "a write into the block that a truncation leaves needs the truncation",
        ),
        (
            "attributes-stay",
            "                    attributes[number] = changed_to.over(attributes[number])",
            "                    attributes[number] = attributes[number].over(changed_to)",
            "a mode that was set is that of the making for ever",
        ),
        (
            "write-keeps-the-time",
            "            attributes[number] = replace(attributes[number], change_ns=at)",
            "            attributes[number] = replace(attributes[number])",
            "a write leaves a file's time as it was",
        ),
        (
            "journal-unordered",
            "        needed = self._ordered[self._ordered <= last]",
            "        needed = self._ordered[self._ordered > last]",
            "of a journal's changes later ones survive without earlier ones",
        ),
        (
            "size-shrinks",
            "                    sizes[file] = max(sizes[file], size) if at_least else size",
            "                    sizes[file] = size",
            "a file that grew is cut to the size of the last change that survived",
        ),
        (
            "old-name-stays",
            "                        entries[parent].pop(name, None)\n                        if number",
            "                        if number",
            "a file that was removed is there",
        ),
    ),
    *folder(
        f"{_P}/folder_rows.py",
        (
            "no-size-row",
            "            if end > live.sizes[request.object]:",
            "            if end > live.sizes[request.object] + (1 << 40):",
            "a write that makes its file longer is there without its size",
        ),
        (
            "tail-not-zeroed",
            "            if request.op is FolderOp.TRUNCATE and tail > 0:",
            "            if request.op is FolderOp.TRUNCATE and tail > _BLOCK:",
            "a truncation within a block zeroes nothing before its size is there",
        ),
        (
            "rename-halved",
            "    if promise is Promise.POSIX and to != parent:",
            "    if to != parent:",
            "a rename of a journal is two changes",
        ),
        (
            "truncation-may-wait",
            "        return not row.change.at_least",
            "        return False",
            "a truncation has no place in a journal's order",
        ),
    ),
    *folder(
        f"{_P}/folder_sets.py",
        (
            "fdatasync-takes-attributes",
            "            if whole and request.data_only:",
            "            if whole and not request.object:",
            "under posix fdatasync makes a mode durable",
        ),
        (
            "sync-of-one-for-all",
            "            for number in [request.object] if request.object else everyone:",
            "            for number in everyone:",
            "an fsync makes every file durable",
        ),
        (
            "sizes-never-durable",
            "            durable[indices] = syncs[number].cover(completed)",
            "            durable[indices] = int(NEVER) if sized else syncs[number].cover(completed)",
            "no sync makes a size durable",
        ),
        (
            "folder-sync-not-needed",
            "            of_folder[row.change.entries[0][0]].append(index)",
            "            of_folder[row.request.other].append(index)",
            "under posix an fsync of the file makes its name durable",
        ),
        (
            "fdatasync-takes-all",
            "            partly = request.data_only or row.kind is not RequestKind.FLUSH",
            "            partly = False",
            "fdatasync makes a rename durable",
        ),
    ),
)
