# SPDX-License-Identifier: Apache-2.0
"""Servers that keep a log and now and then write it anew: Redis, etcd, PostgreSQL's segments."""

from __future__ import annotations

from collections.abc import Mapping
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
_REWRITE: Final = 32


def rewritten_log(faulty: bool) -> Case:
    """Redis: the append-only file is rewritten beside itself and renamed over."""
    files = Files({"appendonly.aof": b""})
    for operation in files.operations(OPERATIONS):
        if operation % _REWRITE == 0:
            files.write("temp-rewriteaof.aof", b"".join(map(entry, range(1, operation))))
            files.sync("temp-rewriteaof.aof")
            files.rename("temp-rewriteaof.aof", "appendonly.aof")
            if not faulty:
                files.sync_folder()
        files.write("appendonly.aof", entry(operation))
        files.sync("appendonly.aof", data_only=True)
    return files.case(lambda tree: read_log(content_of(tree, "appendonly.aof")))


def saved_snapshot(faulty: bool) -> Case:
    """Redis: SAVE writes all into a new file, renames it over dump.rdb, and says OK."""
    files = Files({"dump.rdb": entry(0)})
    for operation in files.operations(32):
        files.write("temp.rdb", b"".join(map(entry, range(operation + 1))))
        files.sync("temp.rdb")
        files.rename("temp.rdb", "dump.rdb")
        if not faulty:
            files.sync_folder()
    return files.case(lambda tree: read_log(content_of(tree, "dump.rdb"))[1:])


def wal_segments(faulty: bool) -> Case:
    """etcd: a segment is made under another name, and renamed when it is its turn."""
    files = Files({"0000.wal": b""})
    segment = 0
    for operation in range(1, OPERATIONS + 1):
        if operation % _REWRITE == 0:
            segment += 1
            files.create("next.tmp")
            files.sync("next.tmp", data_only=True)
            files.rename("next.tmp", f"{segment:04}.wal")
            if not faulty:
                files.sync_folder()
        files.try_(operation)
        files.write(f"{segment:04}.wal", entry(operation))
        files.sync(f"{segment:04}.wal", data_only=True)
        files.ack(operation)

    def check(tree: Mapping[str, bytes]) -> list[int]:
        found = []
        for number, name in enumerate(one for one in tree if one.endswith(".wal")):
            if name != f"{number:04}.wal":
                raise Contradiction(f"segment {number} is missing")
            found += read_log(tree[name])
        return found

    return files.case(check)


def received_snapshot(faulty: bool) -> Case:
    """etcd: a snapshot is received and renamed; the log then refers to it."""
    files = Files({"wal": b""})
    for operation in files.operations(OPERATIONS):
        if operation % _REWRITE == 0:
            name = f"{operation:06}.snap.db"
            files.write("tmp", entry(operation, 4096))
            files.sync("tmp")
            files.rename("tmp", name)
            if not faulty:
                files.sync_folder()
        files.write("wal", entry(operation))
        files.sync("wal", data_only=True)

    def check(tree: Mapping[str, bytes]) -> list[int]:
        found = read_log(content_of(tree, "wal"))
        for number in found:
            if number % _REWRITE == 0:
                read_entry(content_of(tree, f"{number:06}.snap.db"))
        return found

    return files.case(check)


def consistent_index(faulty: bool) -> Case:
    """etcd 3.5.0 to 3.5.2: the index up to which the log was applied is stored in a transaction of
    its own, and what is behind it is not applied again.
    """
    files = Files({"wal": b"", "db": b"", "index": entry(0)})
    applied: list[int] = []
    for operation in files.operations(OPERATIONS):
        files.write("wal", entry(operation))
        files.sync("wal", data_only=True)
        applied.append(operation)
        if operation % 12 == 0:  # the batch of the backend
            if faulty:
                files.write("index", entry(operation), at=0)
                files.sync("index", data_only=True)
            files.write("db", b"".join(map(entry, applied)))
            files.sync("db", data_only=True)
            if not faulty:
                files.write("index", entry(operation), at=0)
                files.sync("index", data_only=True)
            applied = []

    def check(tree: Mapping[str, bytes]) -> list[int]:
        index = read_entry(tree["index"])
        if index is None:
            raise Contradiction("the index cannot be read")
        stored = [one for one in read_log(tree["db"]) if one <= index]
        return stored + [one for one in read_log(tree["wal"]) if one > index]

    return files.case(check, unit=4096)


def repaired_log(faulty: bool) -> Case:
    """etcd: a broken tail of the log is cut off after the log was copied, which must keep it."""
    files = Files({"wal": b"".join(map(entry, range(OPERATIONS)))})
    size = OPERATIONS * len(entry(0))
    for operation in files.operations(24):
        files.write(f"{operation:04}.broken", b"".join(map(entry, range(OPERATIONS))))
        if not faulty:
            files.sync(f"{operation:04}.broken")
            files.sync_folder()
        files.truncate("wal", size // 2)
        files.sync("wal")
        files.write("wal", b"".join(map(entry, range(OPERATIONS // 2, OPERATIONS))))
        files.sync("wal")
        files.sync_folder()
        if operation % 2 == 0:
            files.unlink(f"{operation - 1:04}.broken")
            files.sync_folder()

    def check(tree: Mapping[str, bytes]) -> range:
        copies = [read_log(content) for name, content in tree.items()]
        if not any(len(copy) == OPERATIONS for copy in copies):
            raise Contradiction("neither the log nor a copy of it is whole")
        return range(1, 25)

    return files.case(check)


def recycled_segment(faulty: bool) -> Case:
    """PostgreSQL: after a checkpoint an old segment gets the name of the next one."""
    files = Files()
    for segment in range(2):
        files.write(f"{segment:08}", bytes(16 * len(entry(0))))
        files.sync(f"{segment:08}")
    files.sync_folder()
    files.start()
    for operation in range(1, OPERATIONS + 1):
        segment, place = divmod(operation - 1, 16)
        if place == 0 and segment >= 2:  # the checkpoint has freed the oldest
            files.write("pages", b"".join(map(entry, range(16 * segment - 31, 16 * segment - 15))))
            files.sync("pages")
            files.sync_folder()
            files.rename(f"{segment - 2:08}", f"{segment:08}")
            if not faulty:
                files.sync_folder()
        files.try_(operation)
        files.write(f"{segment:08}", entry(operation), at=place * len(entry(0)))
        files.sync(f"{segment:08}", data_only=True)
        files.ack(operation)

    def check(tree: Mapping[str, bytes]) -> list[int]:
        found = read_log(tree["pages"]) if "pages" in tree else []
        for name in tree:
            if name.isdigit():
                first = 16 * int(name) + 1  # other records are those of its earlier life
                found += [one for one in read_log(tree[name]) if first <= one < first + 16]
        return found

    return files.case(check)
