# SPDX-License-Identifier: Apache-2.0
"""How far a run came, counted from its recording."""

from __future__ import annotations

from handmade import Handmade
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.known_bugs.files import Files
from powercut.model.reached import FilesMet, Reached
from powercut.recording.reached import files_met, reached_in_folder, reached_on_disk
from powercut.store.file_map import FileMaps, FilesAt, MappedFile


def reached(files):
    """From its start to its cut."""
    folder = files.case(list).space.folder
    return reached_in_folder(folder, 7, int(folder.begin_ns), int(folder.cut_ns))


def test_what_was_there_before_the_run_is_not_of_it_and_is_known():
    files = Files({"store": b"x" * 100, "log": b"y" * 50})
    files.write("new", b"z" * 30)
    files.rename("new", "store")
    files.truncate("log", 20)
    files.write("log", b"y" * 5)
    files.truncate("log", 400)  # it only grows
    files.rename("log", "log.1")
    files.unlink("log.1")
    assert reached(files) == Reached(7, 35, 0.0, FilesMet(1, 1, 2, replacing=1, truncated=1))


def test_a_run_that_only_appends_has_met_nothing_else():
    files = Files({"log": b""})
    for _ in range(20):
        files.write("log", b"x" * 10)
        files.sync("log")
    assert reached(files).files == FilesMet(0, 0, 0, replacing=0, truncated=0)


calls = st.lists(
    st.tuples(
        st.sampled_from(["write", "truncate", "rename", "unlink"]),
        st.sampled_from("abc"),
        st.sampled_from("abc"),
        st.integers(0, 9),
    ),
    max_size=40,
)


@settings(max_examples=60)
@given(calls)
def test_calls_are_counted_as_a_folder_that_is_kept_beside_counts_them(calls):
    files, held = Files({"a": b"12345"}), {"a": 5}
    made = removed = renamed = replacing = truncated = size = 0
    for call, name, other, amount in calls:
        if call == "write":
            made += name not in held
            size += amount + 1
            files.write(name, b"x" * (amount + 1))
            held[name] = held.get(name, 0) + amount + 1
        elif name not in held:
            continue
        elif call == "truncate":
            truncated += amount < held[name]
            files.truncate(name, amount)
            held[name] = amount
        elif call == "unlink":
            removed += 1
            files.unlink(name)
            del held[name]
        elif other != name:
            renamed, replacing = renamed + 1, replacing + (other in held)
            files.rename(name, other)
            held[other] = held.pop(name)
    found = reached(files)
    assert (found.size, found.files) == (
        size,
        FilesMet(made, removed, renamed, replacing=replacing, truncated=truncated),
    )


def test_of_a_disk_bytes_and_seconds_from_the_start_to_the_cut_are_known():
    made = Handmade(1 << 20)
    made.write(0, b"x" * 4096, at=10, done=11)
    made.write(4096, b"x" * 8192, at=2_000_000_020, done=2_000_000_021)
    made.flush(at=2_000_000_030, done=2_000_000_040)
    assert reached_on_disk(made.timeline(cut_at=4_000_000_015), 3, 15) == Reached(3, 8192, 4.0)
    assert reached_on_disk(made.timeline(), 3, 15) is None


def looks(*names):
    maps = [
        FilesAt(instant=at, files=tuple(MappedFile(path=one, extents=()) for one in paths))
        for at, paths in enumerate(names)
    ]
    return FileMaps(maps=tuple(maps))


def test_of_a_disk_names_that_come_and_go_between_looks_are_counted():
    assert files_met(looks("a", "ab", "bc", "bc")) == FilesMet(2, 1, looks=4)
    assert files_met(looks("a", "a")) == FilesMet(0, 0, looks=2)
    assert files_met(looks("a")) is None
    assert files_met(None) is None
