# SPDX-License-Identifier: Apache-2.0
"""What a program kept in its own memory, and lost with it: captured folders, made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from test_folder_explorer import judged

from powercut.crash.folder_rows import Promise
from powercut.explore.folder_judge import FolderJudge
from powercut.explore.request import Budget
from powercut.model.folder import ROOT_OBJECT, FolderOp, FolderRequest, FolderTimeline
from powercut.model.observation import Observation
from powercut.model.operations import Packet
from powercut.model.units import Instant
from powercut.model.verdict import LsnRange, Verdict
from powercut.recording.folder import FolderRecording
from powercut.store.folder import CaptureDir, CaptureRecord
from powercut.witness.folder import minimize_folder
from powercut.workload.program.claims import history_of

FILE, CUT, ACKED = 2, 100_000, 50
LINE = 4


def recorded(
    tmp_path: Path,
    written: Sequence[Sequence[int]],
    *,
    later: Sequence[int] = (),
    synced: bool = True,
) -> FolderRecording:
    """Operation n takes the instants from 100 n on, and writes and syncs the lines `written[n-1]`,
    none or several.  In those of `later` the header is written, too.
    """
    requests = [
        FolderRequest(FolderOp.CREATE, ROOT_OBJECT, 1, 2, other=FILE, names=("log",)),
        FolderRequest(FolderOp.CREATE, ROOT_OBJECT, 3, 4, other=3, names=("header",)),
        FolderRequest(FolderOp.FLUSH, FILE, 5, 6),
    ]
    data, said = bytearray(), [Packet(Instant(20), b"ready\n")]
    for number, lines in enumerate(written, 1):
        now = 100 * number
        said.append(Packet(Instant(now), b"? %d\n" % number))
        for at, line in enumerate(lines):
            place = {"offset": LINE * (line - 1), "length": LINE, "data_offset": len(data)}
            requests.append(FolderRequest(FolderOp.WRITE, FILE, now + 5 + at, now + 15, **place))
            data += b"%3d\n" % line
        if number in later:
            place = {"offset": 0, "length": LINE, "data_offset": len(data)}
            requests.append(FolderRequest(FolderOp.WRITE, 3, now + 10, now + 15, **place))
            data += b"%3d\n" % number
        if synced:
            requests.append(FolderRequest(FolderOp.FLUSH, FILE, now + 20, now + 30))
        said.append(Packet(Instant(now + ACKED), b"+ %d\n" % number))
    folder = FolderTimeline(
        requests=tuple(requests),
        data=np.frombuffer(bytes(data), dtype=np.uint8),
        begin_ns=Instant(10),
        atomic_unit=4096,
        said=tuple(said),
        cut_ns=Instant(CUT),
    )
    record = CaptureRecord(
        powercut="0", folder="/d", where="/", command=("run",), atomic_unit=4096, seed=1, cut_ns=CUT
    )
    history = history_of(folder.said, CUT)
    return FolderRecording(CaptureDir(tmp_path), record, folder, history, (), ())


def by_fours(count: int) -> list[list[int]]:
    """A program that keeps three records in memory, and writes each fourth with these."""
    return [list(range(n - 3, n + 1)) if n % 4 == 0 else [] for n in range(1, count + 1)]


def each(count: int, *, but: Sequence[int] = ()) -> list[list[int]]:
    return [[] if n in but else [n] for n in range(1, count + 1)]


def numbers(state: Path) -> Observation:
    """The honest check, which is given the header to read, too."""
    (state / "header").read_bytes()
    lines = (state / "log").read_bytes().split(b"\n")
    kept = [n for n, line in enumerate(lines, 1) if line == b"%3d" % n]
    return Observation((), lines="".join(f"= {n}\n" for n in kept).encode())


@pytest.mark.parametrize(("count", "named"), [(14, "13-14"), (15, "13-15"), (17, "17")])
def test_what_dies_with_the_program_that_acknowledges_before_it_writes_is_lost(
    tmp_path: Path, count: int, named: str
) -> None:
    result = judged(tmp_path, recorded(tmp_path, by_fours(count)), numbers)
    assert result.verdict is Verdict.LOSSY
    (reason,) = [one for one in result.reasons if "never written" in one]
    assert reason == (
        f"never written: {named} were acknowledged, and nothing was written from their first "
        "attempt to the cut: the program kept them in its own memory, which ends with it"
    )
    (found,) = result.explored.findings
    lost = {lsn for span in found.lsns for lsn in span}
    whole = count // 4 * 4
    assert lost == {n for n in range(1, whole + 1) if n % 4}, "each but the fourth, in some state"
    assert result.positive is not None
    assert (result.positive.found, result.positive.unwritten) == (whole, True)


def test_the_same_program_cut_after_it_has_written_all_is_lossy_as_before(tmp_path: Path) -> None:
    result = judged(tmp_path, recorded(tmp_path, by_fours(16)), numbers)
    assert (result.verdict, result.reasons) == (Verdict.LOSSY, ())


def test_the_witness_tells_of_an_operation_that_came_to_be_written(tmp_path: Path) -> None:
    recording = recorded(tmp_path, by_fours(14))
    with FolderJudge(
        recording.under(Promise.JOURNAL), lambda state, _: numbers(state), tmp_path
    ) as judge:
        assert judge.positive().believed
        made = minimize_folder(recording, judge, "ack:9", operation=9, budget=Budget(100))
    assert (made.lost, made.dropped) == ((LsnRange(9, 9),), ())


def test_a_loss_of_another_kind_does_not_say_where_the_rest_was_kept(tmp_path: Path) -> None:
    """Written before its ack, and never synced."""
    result = judged(tmp_path, recorded(tmp_path, each(14, but=[14]), synced=False), numbers)
    assert result.verdict is Verdict.LOSSY
    (reason,) = result.reasons
    assert reason.startswith("never written: 14 ")
    assert reason.endswith("the check does not report them")


@pytest.mark.parametrize("but", [[14], [12, 13, 14]])
def test_operations_that_may_have_nothing_to_write_convict_nobody(
    tmp_path: Path, but: list[int]
) -> None:
    """Keys deleted that are not there, at the end: the log looks the same, the others are kept."""
    result = judged(tmp_path, recorded(tmp_path, each(14, but=but)), numbers)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert result.explored.coverage.lossy == 0 < result.explored.coverage.distinct
    (reason,) = result.reasons
    assert reason.startswith("never written: ")
    assert reason.endswith("or they have nothing to write and the check does not report them")


@pytest.mark.parametrize(
    "how",
    [
        {"written": each(14, but=[7])},
        {"written": each(14, but=[7, 14])},
        {"written": by_fours(14), "later": [14]},
    ],
    ids=["in the middle", "some of them", "something else is written"],
)
def test_where_a_write_could_carry_it_the_check_is_doubted_as_ever(
    tmp_path: Path, how: dict[str, list[list[int]]]
) -> None:
    result = judged(tmp_path, recorded(tmp_path, **how), numbers)
    assert (result.verdict, result.explored.coverage.distinct) == (Verdict.INCONCLUSIVE, 0)
    assert any("the check does not see what is there" in one for one in result.reasons)


def test_a_check_that_calls_the_end_wrong_has_seen_something_of_it(tmp_path: Path) -> None:
    def check(state: Path) -> Observation:
        seen = numbers(state)
        return Observation((), lines=seen.lines + (b"x 13 torn\n" if b"12" in seen.lines else b""))

    result = judged(tmp_path, recorded(tmp_path, by_fours(14)), check)
    assert (result.verdict, result.explored.coverage.distinct) == (Verdict.INCONCLUSIVE, 0)


def test_one_that_writes_nothing_at_all_shows_nothing_of_its_check(tmp_path: Path) -> None:
    result = judged(tmp_path, recorded(tmp_path, [[] for _ in range(14)]), numbers)
    assert (result.verdict, result.explored.coverage.distinct) == (Verdict.INCONCLUSIVE, 0)
