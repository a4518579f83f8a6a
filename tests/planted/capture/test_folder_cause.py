# SPDX-License-Identifier: Apache-2.0
"""A witness tells an ack that came too early from a later step that takes an operation away."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from powercut.campaign.folder import CaptureOrder, record_folder
from powercut.crash.folder_rows import Promise, SizeChange
from powercut.crash.states import CrashState
from powercut.explore.folder_judge import FolderJudge
from powercut.explore.request import Budget
from powercut.model.errors import UsageError
from powercut.model.observation import Observation
from powercut.recording.folder import FolderRecording, open_capture
from powercut.recording.folder_names import FolderNames
from powercut.recording.state_names import save_state
from powercut.store.folder import CaptureDir
from powercut.store.witness import Witness
from powercut.witness.folder import minimize_folder
from powercut_extras.pages.timeline.source import source_at

pytestmark = pytest.mark.fuse

JOURNAL = Promise.JOURNAL

# Six operations, durable in a log; then they are moved to a table and the log is taken away.
KEEPER = """if True:
    import os, sys
    way, folder = sys.argv[1:]
    lines, directory = int(os.environ["POWERCUT_FD"]), os.open(folder, os.O_RDONLY)
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
    log, table = (os.open(folder + name, flags, 0o644) for name in ("/log", "/table"))
    os.fsync(directory)
    os.write(lines, b"ready\\n")
    for n in range(1, 8):
        os.write(lines, b"? %d\\n" % n)
        if n == 7:
            os.write(table, b"1\\n2\\n3\\n4\\n5\\n6\\n")
            if way == "in-order":
                os.fsync(table)
            if way == "removes":
                os.unlink(folder + "/log")
                log = os.open(folder + "/next", flags, 0o644)
                os.fsync(directory)
            else:
                os.ftruncate(log, 0)
            if way == "hurries":
                break
        os.write(log, b"%d\\n" % n)
        if way != "early" or n < 5:
            os.fdatasync(log)
        os.write(lines, b"+ %d\\n" % n)
        if way == "early" and n == 5:
            break
"""


def numbers(state: Path) -> Observation:
    found = set()
    for name in ("log", "table", "next"):
        if (state / name).exists():
            found |= {int(word) for word in re.findall(rb"\d+", (state / name).read_bytes())}
    return Observation((), lines="".join(f"= {number}\n" for number in sorted(found)).encode())


def recorded(tmp_path: Path, way: str) -> FolderRecording:
    folder = tmp_path / "folder"
    folder.mkdir()
    command = (sys.executable, "-I", "-S", "-c", KEEPER, way, str(folder))
    directory = CaptureDir.create(tmp_path / "recording")
    record_folder(CaptureOrder(folder, command, (), 0, 60.0, 4096, 1), directory)
    return open_capture(directory)


def witness_of(tmp_path: Path, recording: FolderRecording, state: str) -> Witness:
    scratch = tmp_path / "states"
    scratch.mkdir()
    with FolderJudge(recording.under(JOURNAL), lambda state, _: numbers(state), scratch) as judge:
        return minimize_folder(recording, judge, state, budget=Budget(states=200))


@pytest.mark.parametrize(
    ("way", "taken"),
    [
        # The log's own sync makes the truncation durable: without it nothing can be tried.
        ("truncates", "The truncation of log to 0 bytes came after the ack, too, and is durable."),
        ("removes", "The removal of log came after the ack, too, and is durable."),
        (
            "hurries",
            "The truncation of log to 0 bytes survived, and without it operation 1 would be there.",
        ),
    ],
)
def test_a_later_step_takes_the_operation_away(tmp_path: Path, way: str, taken: str) -> None:
    recording = recorded(tmp_path, way)
    state = "durable@cut"
    if way == "hurries":  # at the cut the truncation may be there or not
        space, cut = recording.under(JOURNAL).space, recording.record.cut_ns
        there = [
            at
            for at in space.volatile(cut).tolist()
            if "log" in FolderNames(space, cut).subject(space.rows[at])
        ]
        state = save_state(recording.under(JOURNAL), CrashState(cut, tuple(there)))
    witness = witness_of(tmp_path, recording, state)
    assert [str(span) for span in witness.lost] == ["1-6"]
    (lost,) = witness.dropped
    assert (lost.path, lost.kind) == ("table", "write")
    early = (
        "Operations 1-6 were acknowledged, and a later step takes them away: bytes 0 to 11 of "
        "table, "
    )
    assert witness.cause.startswith(f"{early}issued ")
    under_way = " ms after the ack of 1 while operation 7 was under way, could be lost: "
    assert under_way in witness.cause
    assert witness.cause.endswith(taken)


def test_an_ack_that_came_too_early_is_told_as_that(tmp_path: Path) -> None:
    witness = witness_of(tmp_path, recorded(tmp_path, "early"), "durable@cut")
    (lost,) = witness.dropped
    assert lost.path == "log"
    assert witness.cause.startswith(
        f"Operation 5 was acknowledged while {lost.text} could be lost: no sync of log came after"
    )


def test_a_table_that_is_durable_first_takes_nothing_away(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="loses nothing"):
        witness_of(tmp_path, recorded(tmp_path, "in-order"), "durable@cut")


TWICE = """if True:
    import os, sys
    synced, folder = sys.argv[1:]
    lines, flags = int(os.environ["POWERCUT_FD"]), os.O_RDWR | os.O_CREAT | os.O_APPEND
    log, index = (os.open(folder + name, flags, 0o644) for name in ("/log", "/index"))
    os.sync()
    os.write(lines, b"ready\\n")
    for n in (1, 2):
        os.write(lines, b"? %d\\n" % n)
        os.write(log, b"%d\\n" % n)
        os.write(index, b"x")
        if synced == "index":
            os.fsync(index)
        os.write(lines, b"+ %d\\n" % n)
"""


@pytest.mark.parametrize("synced", ["none", "index"])
def test_every_sync_that_the_lost_operation_lacks_is_named(tmp_path: Path, synced: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    directory = CaptureDir.create(tmp_path / "recording")
    command = (sys.executable, "-I", "-S", "-c", TWICE, synced, str(folder))
    record_folder(CaptureOrder(folder, command, (), 0, 60.0, 4096, 1), directory)
    witness = witness_of(tmp_path, open_capture(directory), "durable@cut")
    came = "; the syncs that came were of index" if synced == "index" else ""
    other = (
        " At the ack of 1 byte 0 of index could be lost, too: no sync of index came after it."
        if synced == "none"
        else ""
    )
    assert witness.cause.endswith(f": no sync of log came after it{came}.{other}")


APPENDS = """if True:
    import os, sys
    folder, lines = sys.argv[1], int(os.environ["POWERCUT_FD"])
    log = os.open(folder + "/log", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    os.sync()
    os.write(lines, b"ready\\n")
    for n in (1, 2, 3):
        os.write(lines, b"? %d\\n" % n)
        os.write(log, b"%d\\n" % n)
        if n < 3:
            os.fsync(log)
            os.write(lines, b"+ %d\\n" % n)
"""


def test_a_size_that_survives_without_its_bytes_is_named(tmp_path: Path) -> None:
    """Of an append under way, which leaves zeroes where a store no longer opens."""
    folder, scratch = tmp_path / "folder", tmp_path / "states"
    folder.mkdir()
    scratch.mkdir()
    directory = CaptureDir.create(tmp_path / "recording")
    command = (sys.executable, "-I", "-S", "-c", APPENDS, str(folder))
    record_folder(CaptureOrder(folder, command, (), 0, 60.0, 4096, 1), directory)
    recording = open_capture(directory)
    space, cut = recording.under(JOURNAL).space, recording.record.cut_ns
    sizes = [
        at for at in space.volatile(cut).tolist() if isinstance(space.rows[at].change, SizeChange)
    ]
    state = save_state(recording.under(JOURNAL), CrashState(cut, tuple(sizes)))

    def opens(state: Path, _: object) -> Observation:
        zeroes = b"\0" in (state / "log").read_bytes()
        return Observation(()) if zeroes else numbers(state)

    with FolderJudge(recording.under(JOURNAL), opens, scratch) as judge:
        witness = minimize_folder(recording, judge, state, budget=Budget(states=200))
    assert [str(span) for span in witness.lost] == ["1-2"]
    assert witness.cause.endswith(
        "(a size without its bytes, as ext4 with data=writeback leaves it) survived, and without "
        "it operation 1 would be there."
    )


# Acknowledges what is in a mapping, whose page is written back once the file is closed.
MAPPED = """if True:
    import mmap, os, sys
    folder, lines = sys.argv[1], int(os.environ["POWERCUT_FD"])
    log = os.open(folder + "/log", os.O_RDWR | os.O_CREAT, 0o644)
    os.ftruncate(log, 4096)
    os.sync()
    memory = mmap.mmap(log, 4096)
    os.write(lines, b"ready\\n? 1\\n")
    memory[0:2] = b"1\\n"
    os.write(lines, b"+ 1\\n")
    memory.close()
"""


def test_an_ack_of_a_page_that_was_not_written_yet(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    directory = CaptureDir.create(tmp_path / "recording")
    command = (sys.executable, "-I", "-S", "-c", MAPPED, str(folder))
    record_folder(CaptureOrder(folder, command, (), 0, 60.0, 4096, 1), directory)
    witness = witness_of(tmp_path, open_capture(directory), "durable@cut")
    (lost,) = witness.dropped
    assert (lost.path, lost.kind, [str(span) for span in witness.lost]) == ("log", "write", ["1"])
    acked_ns = next(event.at_ns for event in witness.events if event.kind == "ack")
    if lost.submitted_ns > acked_ns:  # else the page was written back early
        late = f"{(lost.submitted_ns - acked_ns) / 1e6:.3f} ms before {lost.text} was issued"
        assert witness.cause.startswith(f"Operation 1 was acknowledged {late}, and could be lost: ")
    else:
        assert witness.cause.startswith(f"Operation 1 was acknowledged while {lost.text} could be")


def test_a_page_keeps_to_the_states_of_the_promise_of_its_verdict(tmp_path: Path) -> None:
    recording = recorded(tmp_path, "truncates")
    state = CrashState(recording.record.cut_ns, ())
    shown, _ = (save_state(recording.under(one), state) for one in (JOURNAL, Promise.POSIX))
    source = source_at(recording.directory.path)
    assert [one.name for one in source.states] == [shown]
    assert source.problems == ()
