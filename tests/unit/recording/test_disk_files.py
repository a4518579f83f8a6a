# SPDX-License-Identifier: Apache-2.0
"""Lost writes by the file that they belong to: planted maps, exact names."""

from __future__ import annotations

import numpy as np

from powercut.crash.states import CrashState, StateSpace
from powercut.explore.program_cut import story_of
from powercut.model.contract import DeviceContract
from powercut.model.operations import Packet
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.recording.disk_files import FilePlaces
from powercut.recording.disk_places import Part, Places
from powercut.store.file_map import FilesAt, MappedFile
from powercut.workload.program.claims import history_of

K = 4096
WAL = MappedFile(path="data/pg_wal/0001", extents=((2 * K, 0, 2 * K), (8 * K, 2 * K, K)))
TREE = MappedFile(path="data", folder=True, extents=((5 * K, 0, K),))
ROOT = MappedFile(path="", folder=True, extents=((6 * K, 0, K),))
LATER = MappedFile(path="data/new", extents=((2 * K, 0, K), (10 * K, K, K)))


def named(*maps: tuple[int, list[MappedFile]]) -> FilePlaces:
    known = [FilesAt(instant=at, files=tuple(files)) for at, files in maps]
    return FilePlaces(Places("", [], unknown="file data or a directory"), known, below="data")


def test_a_write_is_cut_where_files_begin_and_end():
    places = named((0, [WAL, TREE, ROOT]))
    parts = places.parts(K, b"\1" * (6 * K))
    assert parts == [
        Part(K, 2 * K, "file data or a directory"),
        Part(2 * K, 4 * K, "pg_wal/0001", 0),
        Part(4 * K, 5 * K, "file data or a directory"),
        Part(5 * K, 6 * K, "folder data"),
        Part(6 * K, 7 * K, "the root folder"),
    ]
    assert str(parts[1]) == "pg_wal/0001, bytes 0 to 8,192"
    assert places.parts(8 * K + 512, b"\1" * 512) == [
        Part(8 * K + 512, 8 * K + 1024, "pg_wal/0001", 2 * K + 512)
    ]
    assert str(parts[1].within(3 * K, 9 * K)) == "pg_wal/0001, bytes 4,096 to 8,192"


def test_the_first_map_that_knows_a_block_names_it():
    """A later map names what the nearer one does not, and cannot take a block from it."""
    places = named((0, [WAL]), (1, [LATER]))
    assert places.parts(2 * K, b"\1" * K)[0].what == "pg_wal/0001"
    assert places.parts(10 * K, b"\1" * K) == [Part(10 * K, 11 * K, "new", K)]
    # A stretch of the later map ends where one of the nearer begins.
    wide = MappedFile(path="data/wide", extents=((K, 0, 4 * K),))
    parts = named((0, [WAL]), (1, [wide])).parts(K, b"\1" * (4 * K))
    assert [(part.begin // K, part.end // K, part.what) for part in parts] == [
        (1, 2, "wide"),
        (2, 4, "pg_wal/0001"),
        (4, 5, "wide"),
    ]


def test_missing_writes_are_told_file_by_file():
    count = 3
    submitted = np.array([1, 2, 3], dtype=np.int64)
    requests = Requests(
        kind=np.full(count, RequestKind.WRITE, dtype=np.uint8),
        fua=np.zeros(count, dtype=np.bool_),
        offset=np.array([2 * K, 8 * K, 20 * K], dtype=np.int64),
        length=np.full(count, K, dtype=np.int64),
        submitted_ns=submitted,
        completed_ns=submitted + 1,
        data_offset=np.arange(count, dtype=np.int64) * K,
        failed=np.zeros(count, dtype=np.bool_),
    )
    timeline = Timeline(1 << 20, DeviceContract(), requests, np.ones(count * K, dtype=np.uint8))
    history = history_of([Packet(1, b"? 7\n"), Packet(9, b"+ 7\n")])
    told = story_of(
        history, StateSpace(timeline, history), CrashState(10, ()), (), named((0, [WAL]))
    )
    assert told[-1] == (
        "missing writes by what they hold: pg_wal/0001, bytes 0 to 12,288 (2 writes); "
        "file data or a directory"
    )


def test_a_write_is_named_by_the_map_nearest_to_it():
    """Blocks go from one file to the next: at each instant they have the name of then."""
    first = MappedFile(path="data/new", extents=((2 * K, 0, K),))
    second = MappedFile(path="data/value", extents=((2 * K, 0, K),))
    places = named((100, [first]), (200, [second]), (300, []))

    def what(instant: int) -> str:
        return places.near(instant).parts(2 * K, b"\1" * K)[0].what

    assert [what(one) for one in (0, 100, 149, 150, 200, 300)] == [
        "new", "new", "new", "value", "value", "value",
    ]  # fmt: skip
    assert places.parts(2 * K, b"\1" * K)[0].what == "new", "the others are as they were"
