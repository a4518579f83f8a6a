# SPDX-License-Identifier: Apache-2.0
"""What an explorer of a captured folder asks its check, on a recording made by hand."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from folders_judged import judged_by

from powercut.checkers.repetition import Repeats
from powercut.crash.explore import InstantKind
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.explore.folder import FolderMedium, look_at_folder
from powercut.explore.folder_judge import FolderJudge
from powercut.explore.request import Budget, ExploreRequest
from powercut.model.folder import ROOT_OBJECT, Attributes, FolderOp, FolderRequest, FolderTimeline
from powercut.model.observation import Observation
from powercut.model.operations import Packet
from powercut.model.units import Instant
from powercut.model.verdict import LsnRange, Verdict
from powercut.recording.folder import FolderRecording, build_tree
from powercut.store.folder import CaptureDir, CaptureRecord, CaptureResult
from powercut.workload.program.claims import history_of

JOURNAL = Promise.JOURNAL
FILE = 2
OPERATIONS = 12
CUT = 100_000
TRUNCATED = 4096


def recorded(
    tmp_path: Path, *, synced: bool, truncated: bool = False, early: bool = False
) -> FolderRecording:
    """A number a line in the file `log`, each perhaps synced before it is acknowledged; a header is
    made before the program is ready.  `early`: each ack comes before its write.
    """
    requests = [FolderRequest(FolderOp.CREATE, ROOT_OBJECT, 1, 2, other=FILE, names=("log",))]
    requests += [
        FolderRequest(FolderOp.CREATE, ROOT_OBJECT, 12, 13, other=3, names=("header",)),
        FolderRequest(FolderOp.FLUSH, 3, 14, 15),
    ]
    data, said, now = bytearray(), [Packet(Instant(20), b"ready\n")], 100
    if truncated:
        old = b"x" * TRUNCATED * 2
        whole = FolderRequest(FolderOp.WRITE, FILE, 3, 4, length=len(old), data_offset=0)
        requests.insert(1, whole)
        requests.append(FolderRequest(FolderOp.TRUNCATE, FILE, 30, 31, size=0))
        requests.append(FolderRequest(FolderOp.FLUSH, FILE, 32, 33))
        data += old
    for number in range(1, OPERATIONS + 1):
        said.append(Packet(Instant(now), b"? %d\n" % number))
        line = b"%3d\n" % number
        place = {"offset": 4 * (number - 1), "length": 4, "data_offset": len(data)}
        requests.append(FolderRequest(FolderOp.WRITE, FILE, now + 10, now + 20, **place))
        data += line
        if synced:
            requests.append(FolderRequest(FolderOp.FLUSH, FILE, now + 30, now + 40))
        said.append(Packet(Instant(now + (5 if early else 50)), b"+ %d\n" % number))
        now += 100
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


def numbers(state: Path) -> Observation:
    """The honest check."""
    lines = (state / "log").read_bytes().split(b"\n") if (state / "log").exists() else []
    kept = [number for number, line in enumerate(lines, 1) if line == b"%3d" % number]
    return Observation((), lines="".join(f"= {number}\n" for number in kept).encode())


def judged(
    tmp_path: Path, recording: FolderRecording, check: Callable[[Path], Observation]
) -> CaptureResult:
    return judged_by(check, recording, Promise.JOURNAL, tmp_path / "states", states=200)


def judge_of(
    recording: FolderRecording, check: Callable[[Path], Observation], scratch: Path
) -> FolderJudge:
    return FolderJudge(recording.under(JOURNAL), lambda state, _: check(state), scratch)


def test_a_cut_requires_what_was_acknowledged_before_it_to_the_nanosecond(tmp_path: Path) -> None:
    with judge_of(recorded(tmp_path, synced=False), numbers, tmp_path) as judge:
        at_ack, after = (judge.judge(CrashState(at, ())) for at in (150, 151))
        assert (at_ack.lsns, at_ack.required) == (frozenset(), ())
        assert (after.lsns, after.required) == ({1}, (LsnRange(1, 1),))


def test_states_are_those_after_the_start_up_to_the_cut_and_at_it(tmp_path: Path) -> None:
    said = [Packet(15, b"ready\n"), Packet(20, b"? 1\n"), Packet(CUT - 1, b"+ 1\n")]
    recording = replace(recorded(tmp_path, synced=False), history=history_of(said, CUT))
    with judge_of(recording, numbers, tmp_path) as judge:
        instants = FolderMedium(recording.under(JOURNAL), judge).instants(list(InstantKind))
    # The sync of the header has begun at 14 and ended at 15.
    assert (instants[0], instants[-1]) == (16, CUT)


def test_a_folder_that_was_asked_again_is_not_asked_once_more(tmp_path: Path) -> None:
    """What equal folders have said counts once, however many states look so."""
    asked = []

    def check(state: Path) -> Observation:
        asked.append(state)
        return numbers(state)

    with judge_of(recorded(tmp_path, synced=False), check, tmp_path) as judge:
        first, same = (judge.ask(CrashState(at, ()))() for at in (151, 160))
    assert (first.pruned, first.repeats, same.pruned, same.repeats) == (
        False,
        Repeats(1),
        True,
        Repeats(),
    )
    assert [finding.lsns for finding in first.findings] == [(LsnRange(1, 1),)]
    assert (first.findings, len(asked)) == (same.findings, 2)


@pytest.mark.parametrize(("synced", "verdict"), [(True, "SAFE"), (False, "LOSSY")])
def test_an_honest_check(tmp_path: Path, synced: bool, verdict: str) -> None:
    result = judged(tmp_path, recorded(tmp_path, synced=synced), numbers)
    assert (result.verdict.name, result.control) == (verdict, "LOSSY"), result.reasons
    assert (result.explored.coverage.lossy > 0) == (verdict == "LOSSY")


def test_a_check_that_finds_something_before_it_was_tried_is_not_believed(tmp_path: Path) -> None:
    """It would find the same after a cut that has taken everything."""

    def check(state: Path) -> Observation:
        return Observation((), lines=numbers(state).lines + b"= 1\n")

    result = judged(tmp_path, recorded(tmp_path, synced=False), check)
    assert (result.verdict.name, result.explored.coverage.distinct, result.control) == (
        "INCONCLUSIVE",
        0,
        "",
    )
    assert any("in the folder before any was tried" in reason for reason in result.reasons)


def test_a_loss_that_the_check_tells_but_once_is_none(tmp_path: Path) -> None:
    """Each folder that lacks something is found whole at the second look."""
    seen: set[bytes] = set()

    def check(state: Path) -> Observation:
        found = numbers(state)
        whole = "".join(f"= {number}\n" for number in range(1, OPERATIONS + 1)).encode()
        key = (state / "log").read_bytes() if (state / "log").exists() else b""
        if key in seen:
            return Observation((), lines=whole)
        seen.add(key)
        return found

    result = judged(tmp_path, recorded(tmp_path, synced=False), check)
    assert result.verdict.name == "INCONCLUSIVE"
    assert result.explored.coverage.lossy == 0
    assert "disagreement" in {found.kind.value for found in result.explored.findings}


def test_a_control_that_only_contradicts_itself_is_none(tmp_path: Path) -> None:
    """A check that cannot read what a lying host leaves has not missed anything."""

    def check(state: Path) -> Observation:
        """Guesses what should be there where the header is not."""
        if (state / "header").exists():
            return numbers(state)
        guess = "".join(f"= {number}\n" for number in range(1, OPERATIONS + 1))
        return Observation((), lines=f"{guess}bad no header\n".encode())

    result = judged(tmp_path, recorded(tmp_path, synced=True), check)
    assert result.control == "INCONCLUSIVE"
    assert result.verdict is not Verdict.SAFE
    assert any("the control did not lose anything" in reason for reason in result.reasons)


def test_what_is_known_of_a_folder_holds_where_its_rows_are_the_same(tmp_path: Path) -> None:
    """A rename into another folder is two changes of POSIX's, so later writes have other numbers;
    a tree of the same numbers holds other bytes.
    """
    recording, known = moved_between_folders(tmp_path), dict[bytes, Future[Observation]]()
    wanted = ExploreRequest(budget=Budget(200), seed=1, confirm=False)

    def looked(promise: Promise, given: dict[bytes, Future[Observation]] | None) -> object:
        scratch = tmp_path / f"{promise.value}-{given is None}"
        scratch.mkdir()
        seen = look_at_folder(
            recording.under(promise), wanted, lambda state, _: last(state), scratch, known=given
        )
        return seen.explored.findings, seen.explored.coverage, seen.control

    assert looked(JOURNAL, known) == looked(JOURNAL, None)
    before = len(known)
    assert looked(Promise.POSIX, known) == looked(Promise.POSIX, None)
    assert len(known) > before


def test_a_folder_of_the_same_rows_is_checked_once_under_both_promises(tmp_path: Path) -> None:
    recording, known = recorded(tmp_path, synced=False), dict[bytes, Future[Observation]]()
    asked = []

    def check(state: Path) -> Observation:
        asked.append(state)
        return numbers(state)

    for promise in (JOURNAL, Promise.POSIX):
        with FolderJudge(
            recording.under(promise), lambda state, _: check(state), tmp_path, known=known
        ) as judge:
            everything = tuple(judge.space.volatile(151).tolist())
            assert judge.judge(CrashState(151, everything)).lossy == ()
    assert len(asked) == 1


@pytest.mark.parametrize("synced", [False, True])
def test_where_a_loss_is_certain_the_rest_of_a_bounded_budget_is_left(
    tmp_path: Path, synced: bool
) -> None:
    recording = recorded(tmp_path, synced=synced)

    def looked(budget: Budget) -> tuple[int, int]:
        scratch = tmp_path / f"{budget}-{budget.whole}"
        scratch.mkdir()
        wanted = ExploreRequest(budget=budget, seed=1, confirm=False)
        found = look_at_folder(
            recording.under(JOURNAL), wanted, lambda state, _: numbers(state), scratch
        )
        coverage = found.explored.coverage
        return coverage.distinct, coverage.lossy

    (few, losing), (all_of_them, _) = looked(Budget(320, 900.0)), looked(Budget(320))
    if synced:
        assert (few, losing) == (all_of_them, 0)
    else:
        assert 32 <= few < 96 < all_of_them
        assert losing >= 8
        assert looked(Budget(320, 900.0, whole=True))[0] == all_of_them


def moved_between_folders(tmp_path: Path) -> FolderRecording:
    """Two files move between folders; then each operation writes its number over the one before,
    and dates the file back.
    """
    one, other, moved = 7, 8, (9, 10)
    back = Attributes(access_ns=5, change_ns=5)
    requests = [
        FolderRequest(FolderOp.CREATE, ROOT_OBJECT, 1, 2, other=FILE, names=("log",)),
        FolderRequest(FolderOp.MKDIR, ROOT_OBJECT, 1, 2, other=one, names=("one",)),
        FolderRequest(FolderOp.MKDIR, ROOT_OBJECT, 1, 2, other=other, names=("other",)),
        *(FolderRequest(FolderOp.CREATE, one, 1, 2, other=n, names=(f"{n}",)) for n in moved),
        FolderRequest(FolderOp.WRITE, FILE, 3, 4, length=4, data_offset=0),
        *(
            FolderRequest(FolderOp.RENAME, one, 12, 13, other=other, names=(f"{n}", f"{n}"))
            for n in moved
        ),
    ]
    data, said = b"  0\n", [Packet(Instant(20), b"ready\n")]
    for number in range(1, OPERATIONS + 1):
        now = 100 * number
        said.append(Packet(Instant(now), b"? %d\n" % number))
        place = {"length": 4, "data_offset": len(data)}
        requests.append(FolderRequest(FolderOp.WRITE, FILE, now + 10, now + 20, **place))
        requests.append(
            FolderRequest(FolderOp.ATTRIBUTES, FILE, now + 25, now + 30, attributes=back)
        )
        data += b"%3d\n" % number
        said.append(Packet(Instant(now + 50), b"+ %d\n" % number))
    plain = recorded(tmp_path, synced=False)
    folder = replace(
        plain.folder,
        requests=tuple(requests),
        data=np.frombuffer(data, dtype=np.uint8),
        said=tuple(said),
    )
    return replace(plain, folder=folder, history=history_of(folder.said, CUT))


def last(state: Path) -> Observation:
    """All up to the number that the log holds are there."""
    text = (state / "log").read_text().strip() if (state / "log").exists() else "0"
    return Observation((), lines=b"".join(b"= %d\n" % one for one in range(1, int(text) + 1)))


def test_a_truncated_file_has_none_of_its_bytes(tmp_path: Path) -> None:
    """Neither does it where it is made longer again: they read as zeroes."""
    recording = recorded(tmp_path, synced=True, truncated=True)
    space = recording.under(Promise.JOURNAL).space
    for name, instant, size in (("first", 25, 2 * TRUNCATED), ("then", 50, 0), ("last", CUT, 48)):
        target = tmp_path / name
        target.mkdir()
        build_tree(space, space.tree(CrashState(instant, ())), target)
        found = (target / "log").read_bytes()
        assert (len(found), b"x" in found) == (size, name == "first")
    grown = FolderRequest(FolderOp.GROW, FILE, 40, 41, size=TRUNCATED)
    requests = (*recording.folder.requests[:6], grown, *recording.folder.requests[6:])
    space = replace(recording, folder=replace(recording.folder, requests=requests)).space
    target = tmp_path / "grown"
    target.mkdir()
    build_tree(space, space.tree(CrashState(50, tuple(space.volatile(50).tolist()))), target)
    assert (target / "log").read_bytes() == bytes(TRUNCATED)
