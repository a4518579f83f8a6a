# SPDX-License-Identifier: Apache-2.0
"""Programs that write pages in place, or replace files whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bench.known_bugs.case import Case, Contradiction, entry, read_entry, read_log
from bench.known_bugs.files import Files
from powercut.crash.folder_rows import Promise

OPERATIONS: Final = 96
_CHECKPOINT: Final = 16


def _checkpoints(page: int, pages: int, *, copies: bool) -> Case:
    """A log of changes, and pages that a checkpoint writes in place; before that, with `copies`,
    into a file of their own.  A page holds the last change to it.
    """
    files = Files(
        {
            "pages": b"".join(entry(0, page) for _ in range(pages)),
            "copies": bytes(page * pages),
            "log": b"",
        }
    )
    changed: dict[int, int] = {}
    for operation in files.operations(OPERATIONS):
        files.write("log", entry(operation))
        files.sync("log", data_only=True)
        changed[operation % pages] = operation
        if operation % _CHECKPOINT == 0:
            for at, (_, last) in enumerate(changed.items()) if copies else ():
                files.write("copies", entry(last, page), at=at * page)
            if copies:
                files.sync("copies", data_only=True)
            for place, last in changed.items():
                files.write("pages", entry(last, page), at=place * page)
            files.sync("pages", data_only=True)
            changed = {}

    def check(tree: Mapping[str, bytes]) -> list[int]:
        saved = {read_entry(tree["copies"][at * page :][:page]) for at in range(pages)}
        for place in range(pages):
            if read_entry(tree["pages"][place * page :][:page]) is None:
                rescued = [one for one in saved if one is not None and one % pages == place]
                if not rescued:
                    raise Contradiction(f"page {place} is torn")
        return read_log(tree["log"])

    return files.case(check, unit=4096)


def full_page_writes(faulty: bool) -> Case:
    """PostgreSQL: pages of 8 KiB over blocks of 4 KiB, without their images in the log."""
    return _checkpoints(8192, 8, copies=not faulty)


def doublewrite(faulty: bool) -> Case:
    """InnoDB: pages of 16 KiB, without the doublewrite buffer."""
    return _checkpoints(16384, 4, copies=not faulty)


def rollback_journal(faulty: bool) -> Case:
    """SQLite: a commit removes the journal, whose return would undo it."""
    page = 512
    files = Files({"db": entry(0, page)})
    for operation in files.operations(48):
        files.write("db-journal", entry(operation - 1, page))
        files.sync("db-journal")
        files.sync_folder()
        files.write("db", entry(operation, page), at=0)
        files.sync("db", data_only=True)
        files.unlink("db-journal")
        if not faulty:
            files.sync_folder()

    def check(tree: Mapping[str, bytes]) -> range:
        now = read_entry(tree["db"])
        if "db-journal" in tree:
            before = read_entry(tree["db-journal"])
            now = now if before is None else before
        if now is None:
            raise Contradiction("the page is torn, and no journal is there to undo it")
        return range(1, now + 1)

    return files.case(check)


def zero_length(faulty: bool) -> Case:
    """Files that are replaced by rename, not synced before: ext4 allocates their blocks late."""
    files = Files({"config": entry(0, 2048)})
    for operation in range(1, 33):
        files.try_(operation)
        files.write("config.new", entry(operation, 2048))
        if not faulty:
            files.sync("config.new")
        files.rename("config.new", "config")

    def check(tree: Mapping[str, bytes]) -> list[int]:
        if "config" not in tree or read_entry(tree["config"]) is None:
            raise Contradiction("neither the old file nor the new one")
        return []

    return files.case(check, promise=Promise.JOURNAL)


def loose_objects(faulty: bool) -> Case:
    """Git: objects are renamed into place; a ref that is written then refers to them."""
    files = Files({"main": b"0"})
    for operation in files.operations(32):
        for kind in ("blob", "tree", "commit"):
            files.write("tmp_obj", entry(operation, 512))
            if not faulty:
                files.sync("tmp_obj")
            files.rename("tmp_obj", f"{kind}-{operation:04}")
        if not faulty:
            files.sync_folder()
        files.write("main.lock", str(operation).encode())
        files.sync("main.lock")
        files.rename("main.lock", "main")
        files.sync_folder()

    def check(tree: Mapping[str, bytes]) -> range:
        if not tree.get("main", b"").isdigit():
            raise Contradiction("the ref is empty")
        newest = int(tree["main"])
        for number in range(1, newest + 1):
            for kind in ("blob", "tree", "commit"):
                name = f"{kind}-{number:04}"
                if name not in tree or read_entry(tree[name]) != number:
                    raise Contradiction(f"object {name} is empty or missing")
        return range(1, newest + 1)

    return files.case(check)


def growing_file(faulty: bool) -> Case:
    """Bolt on ext3 and early ext4: fdatasync does not keep the size that a page write has made."""
    page = 4096
    files = Files({"db": entry(0, page) + entry(0, page)})
    pages = 2
    for operation in files.operations(OPERATIONS):
        if operation % 24 == 0:
            pages += 4
            if not faulty:
                files.truncate("db", pages * page)
                files.sync("db")
        place = pages - 1
        files.write("db", entry(operation, page), at=place * page)
        files.sync("db", data_only=True)
        files.write("db", entry(place, 512), at=(operation % 2) * 512)
        files.sync("db", data_only=True)
        files.write("log", entry(operation))
        files.sync("log")
        files.sync_folder()

    def check(tree: Mapping[str, bytes]) -> list[int]:
        for at in (0, 512):
            place = read_entry(tree["db"][at:][:512])
            if place is not None and len(tree["db"]) < (place + 1) * page:
                raise Contradiction("the root page lies beyond the end of the file")
        return read_log(tree["log"]) if "log" in tree else []

    return files.case(check, unit=4096, sizes_kept=False)


def collected_garbage(faulty: bool) -> Case:
    """doltlite: the store is compacted beside itself and renamed; commits go to the new file."""
    files = Files({"chunks": b""})
    for operation in files.operations(OPERATIONS):
        files.write("chunks", entry(operation))
        if operation % 40 == 0:
            files.write("chunks.gc", b"".join(map(entry, range(1, operation + 1))))
            files.sync("chunks.gc")
            files.rename("chunks.gc", "chunks")
            if not faulty:
                files.sync_folder()
        else:
            files.sync("chunks", data_only=True)
    return files.case(lambda tree: read_log(tree["chunks"]) if "chunks" in tree else [])
