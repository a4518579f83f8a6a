# SPDX-License-Identifier: Apache-2.0
"""Log-structured stores: LevelDB and its kin, as their files are written.

Operations go to a log, `NUMBER.log`; now and then the log becomes a table, `NUMBER.sst`, a manifest
names what counts, and CURRENT (or a marker) names the manifest.  Only the order of calls is that of
the products; formats are not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from bench.known_bugs.case import (
    Case,
    Contradiction,
    content_of,
    entry,
    read_entry,
    read_log,
)
from bench.known_bugs.files import Files

OPERATIONS: Final = 96
_SWITCH: Final = 32
"""One log in so many operations is full; the products' logs take thousands."""

_TABLE: Final = 4096


@dataclass(frozen=True)
class _Steps:
    """Which of the calls that make a switch durable are made."""

    sync_table: bool = True
    sync_manifest: bool = True
    folder_before_current: bool = True
    folder_after_current: bool = True
    folder_after_log: bool = True


class _Store:
    """A store; `steps` says what it leaves out."""

    def __init__(self, steps: _Steps) -> None:
        self.files, self.steps = Files(), _Steps()
        self._number = 1
        self._done: list[int] = []
        self._log = ""
        self._open_log()
        self._write_manifest([])
        self.files.sync_folder()
        self.files.start()
        self.steps = steps

    def run(self) -> Case:
        for operation in range(1, OPERATIONS + 1):
            if operation % _SWITCH == 0:
                self._switch()
            self.files.try_(operation)
            self.files.write(self._log, entry(operation))
            self._done.append(operation)
            self.files.sync(self._log, data_only=True)
            self.files.ack(operation)
        return self.files.case(check)

    def _open_log(self) -> None:
        self._number += 1
        self._log = f"{self._number:06}.log"
        self.files.create(self._log)

    def _switch(self) -> None:
        """The log becomes a table, and another log takes its place."""
        files, steps, old = self.files, self.steps, self._log
        self._open_log()
        if steps.folder_after_log:
            files.sync_folder()
        table = f"{self._number:06}.sst"
        content = b"".join(entry(one) for one in self._done)
        files.write(table, content + entry(0))
        if steps.sync_table:
            files.sync(table)
        self._write_manifest([table])
        files.unlink(old)

    def _write_manifest(self, tables: list[str]) -> None:
        files, steps = self.files, self.steps
        manifest = f"MANIFEST-{self._number:06}"
        files.write(manifest, _text([*tables, self._log]))
        if steps.sync_manifest:
            files.sync(manifest)
        if steps.folder_before_current:
            files.sync_folder()
        files.write("CURRENT.dbtmp", _text([manifest]))
        files.sync("CURRENT.dbtmp")
        files.rename("CURRENT.dbtmp", "CURRENT")
        if steps.folder_after_current:
            files.sync_folder()


def check(files: Mapping[str, bytes]) -> list[int]:
    """What a store that is opened finds: all of its tables, and the log behind them."""
    (manifest,) = _names(files, "CURRENT")
    *tables, log = _names(files, manifest)
    found = []
    for table in tables:
        content = read_log(content_of(files, table))
        if not content or content[-1] != 0:
            raise Contradiction(f"{table} is cut off")
        found += content[:-1]
    return found + read_log(content_of(files, log))


def _text(names: list[str]) -> bytes:
    return "\n".join([str(len(names)), *names]).encode()


def _names(files: Mapping[str, bytes], name: str) -> list[str]:
    lines = content_of(files, name).decode(errors="replace").split("\n")
    if lines[0] != str(len(lines) - 1):
        raise Contradiction(f"{name} is empty or cut off")
    return lines[1:]


def store(**left_out: bool) -> Callable[[bool], Case]:
    """A store whose bug is to leave calls out."""
    return lambda faulty: _Store(_Steps(**left_out) if faulty else _Steps()).run()


def log_not_synced(faulty: bool) -> Case:
    """Operations are synced together; a switch to a new log comes between two syncs."""
    files, log, waiting = Files(), "", []
    files.start()
    for operation in range(1, OPERATIONS + 1):
        if operation % _SWITCH == 1:
            if log and not faulty:
                files.sync(log, data_only=True)
            log = f"{operation:06}.log"
            files.create(log)
            files.sync_folder()
        files.try_(operation)
        files.write(log, entry(operation))
        waiting.append(operation)
        if operation % 5 == 0:
            files.sync(log, data_only=True)
            files.ack(*waiting)
            waiting = []
    return files.case(lambda tree: [one for name in tree for one in read_log(tree[name])])


def ingested(faulty: bool) -> Case:
    """Now and then a table made elsewhere is linked in, and the manifest names it."""
    files = Files()
    files.write("MANIFEST", b"")
    files.write("log", b"")
    files.sync("MANIFEST")
    files.sync_folder()
    files.start()
    for operation in files.operations(OPERATIONS):
        if operation % 16:
            files.write("log", entry(operation))
            files.sync("log", data_only=True)
        else:
            table = f"{operation:06}.sst"
            files.write(table, entry(operation, _TABLE))
            files.sync(table)
            if not faulty:
                files.sync_folder()
            files.write("MANIFEST", entry(operation))
            files.sync("MANIFEST", data_only=True)

    def check_ingested(tree: Mapping[str, bytes]) -> list[int]:
        tables = read_log(content_of(tree, "MANIFEST"))
        for number in tables:
            if read_entry(content_of(tree, f"{number:06}.sst")) != number:
                raise Contradiction(f"table {number} is not whole")
        return tables + read_log(content_of(tree, "log"))

    return files.case(check_ingested)


def marker(faulty: bool) -> Case:
    """A marker file, whose name says which manifest counts, is made and the older one removed."""
    files = Files()
    files.write("MANIFEST-000000", entry(0))
    files.sync("MANIFEST-000000")
    files.create("marker.000000")
    files.sync_folder()
    files.start()
    manifest, done = "MANIFEST-000000", [0]
    for operation in files.operations(OPERATIONS):
        done.append(operation)
        if operation % 24:
            files.write(manifest, entry(operation))
            files.sync(manifest, data_only=True)
        else:
            old, manifest = manifest, f"MANIFEST-{operation:06}"
            files.write(manifest, b"".join(map(entry, done)))
            files.sync(manifest)
            if not faulty:
                files.sync_folder()
            files.create(f"marker.{operation:06}")
            files.sync_folder()
            files.unlink(old)
            files.unlink(f"marker.{old[-6:]}")

    def check_marker(tree: Mapping[str, bytes]) -> list[int]:
        newest = max((name[-6:] for name in tree if name.startswith("marker.")), default="")
        return read_log(content_of(tree, f"MANIFEST-{newest}"))[1:]

    return files.case(check_marker)
