# SPDX-License-Identifier: Apache-2.0
"""Who may convict: no check that contradicts itself, and no state that lacks nothing.

Of captured folders, made by hand; tests/unit/trial/test_who_convicts_on_disks.py has the same of
disks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from test_folder_explorer import CUT, OPERATIONS, judged, numbers, recorded

from powercut.checkers.repetition import Repeats
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.explore.confirmation import asked_again
from powercut.explore.folder_judge import FolderJudge
from powercut.explore.request import Budget
from powercut.explore.state_judge import Judgement
from powercut.model.errors import UsageError
from powercut.model.observation import Observation
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.recording.folder import fingerprint
from powercut.witness.folder import minimize_folder

WHOLE = "".join(f"= {number}\n" for number in range(1, OPERATIONS + 1)).encode()
ALL = b"".join(b"%3d\n" % number for number in range(1, OPERATIONS + 1))


def log_of(state: Path) -> bytes:
    return (state / "log").read_bytes() if (state / "log").exists() else b""


@pytest.fixture
def lying(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int, int], bool]], Counter[int]]:
    """Has the check say that all is there where `lies` says so: at look n, from 1, of the m-th
    folder that is a state; what it returns counts those looks.
    """

    def plant(lies: Callable[[int, int], bool]) -> Counter[int]:
        looks: Counter[int] = Counter()
        order: dict[bytes, int] = {}
        real = FolderJudge.checked

        def checked(self, space, tree, *, written=None):
            seen = real(self, space, tree, written=written)
            if space is not self.space or written is not None:  # the two controls
                return seen
            number = order.setdefault(fingerprint(tree), len(order))
            looks[number] += 1
            return Observation((), lines=WHOLE) if lies(number, looks[number]) else seen

        monkeypatch.setattr(FolderJudge, "checked", checked)
        return looks

    return plant


def kinds(result) -> dict[FindingKind, object]:
    return {one.kind: one for one in result.explored.findings}


# --- a check that contradicts itself -------------------------------------------------------


def test_a_check_that_mostly_contradicts_itself_convicts_nobody(tmp_path: Path, lying) -> None:
    """Some of its losses repeat themselves five times, and most do not repeat themselves at all."""
    lying(lambda number, look: look > 1 and number % 5 > 0)
    result = judged(tmp_path, recorded(tmp_path, synced=False), numbers)
    assert (result.verdict, result.explored.coverage.lossy) == (Verdict.INCONCLUSIVE, 0)
    found = kinds(result)
    assert found[FindingKind.LOST].verdict is Verdict.INCONCLUSIVE
    assert found[FindingKind.LOST].states >= 3
    assert found[FindingKind.LOST].examples[0].confirmed == "yes", "it lost the same five times"
    (reason,) = [one for one in result.reasons if "contradicts itself" in one]
    differed, asked = map(int, re.findall(r"\d+", reason))
    assert asked > differed > asked / 2
    assert differed <= found[FindingKind.DISAGREEMENT].states, "equal folders are asked once"


def test_one_that_seldom_does_convicts_all_the_same(tmp_path: Path, lying) -> None:
    lying(lambda number, look: look > 1 and number % 20 == 19)
    result = judged(tmp_path, recorded(tmp_path, synced=False), numbers)
    assert result.verdict is Verdict.LOSSY
    assert {FindingKind.LOST, FindingKind.DISAGREEMENT} == set(kinds(result))


def test_one_that_says_the_same_each_time_is_asked_five_times_of_one_state(
    tmp_path: Path, lying
) -> None:
    """What it costs: three looks more at one state of each kind of loss, and one at the whole."""
    looks = lying(lambda *_: False)
    result = judged(tmp_path, recorded(tmp_path, synced=False), numbers)
    found = kinds(result)
    assert (result.verdict, list(found)) == (Verdict.LOSSY, [FindingKind.LOST])
    examples = found[FindingKind.LOST].examples
    assert [one.confirmed for one in examples] == ["yes", *["not tried"] * (len(examples) - 1)]
    assert (looks[0], looks[1]) == (5, 2), "nothing but what is durable; everything"
    assert set(looks.values()) == {1, 2, 5}
    assert Counter(looks.values())[5] == 1


@pytest.mark.parametrize("honest", [2, 3, 4, 5])
def test_a_state_that_convicts_loses_the_same_five_times(
    tmp_path: Path, lying, honest: int
) -> None:
    """Each folder that lacks something is found whole after so many looks."""
    looks = lying(lambda _, look: look > honest)
    result = judged(tmp_path, recorded(tmp_path, synced=False), numbers)
    lost = kinds(result)[FindingKind.LOST]
    assert (lost.verdict is Verdict.LOSSY) is (result.verdict is Verdict.LOSSY) is (honest == 5)
    assert lost.examples[0].confirmed == ("yes" if honest == 5 else "no")
    # Two looks, and three states that look so are asked until one answer differs.
    assert looks[0] == (5 if honest == 5 else honest + 3)


def test_another_loss_is_another_answer_but_of_another_kernel(tmp_path: Path) -> None:
    """That may lose less, and the same each time."""
    found, fewer, more = (
        Finding(FindingKind.LOST, Verdict.LOSSY, "gone", (LsnRange(3, last),)) for last in (4, 3, 5)
    )
    unknown = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "no memory")
    answers = {
        "fewer": [fewer] * 3,
        "more": [more] * 3,
        "changing": [found, more, found],
        "unknown": [unknown] * 3,
    }
    heard = {}
    for name, said in answers.items():
        for other in (False, True):
            looks = iter([Judgement((one,), ()) for one in said])
            one = asked_again(lambda looks=looks: next(looks), [found], looks=3, other=other)
            heard[name, other] = (one.confirmed, one.repeats)
    assert heard == {
        ("fewer", False): ("no", Repeats(1, 1)),
        ("fewer", True): ("yes", Repeats(3)),
        ("more", False): ("yes", Repeats(3)),
        ("more", True): ("yes", Repeats(3)),
        ("changing", False): ("no", Repeats(2, 1)),
        ("changing", True): ("no", Repeats(2, 1)),
        ("unknown", False): ("not tried", Repeats(1, 1)),
        ("unknown", True): ("not tried", Repeats(1, 1)),
    }


def test_the_search_for_a_witness_is_as_hard_to_convince(tmp_path: Path, lying) -> None:
    lying(lambda _, look: look > 2)
    recording = recorded(tmp_path, synced=False)
    with (
        FolderJudge(
            recording.under(Promise.JOURNAL), lambda state, _: numbers(state), tmp_path
        ) as judge,
        pytest.raises(UsageError, match="did not say the same"),
    ):
        minimize_folder(recording, judge, budget=Budget(100))


# --- a state that lacks nothing ------------------------------------------------------------


class BlindLater:
    """Finds nothing in the whole folder, but the first time that it sees it."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, state: Path) -> Observation:
        if log_of(state) != ALL:
            return numbers(state)
        self.seen += 1
        return Observation((), lines=b"") if self.seen > 1 else numbers(state)


def test_a_loss_where_nothing_is_missing_is_a_doubt_about_the_check(tmp_path: Path) -> None:
    """The check found all 12 where nothing was lost, and then none of them in the same folder."""
    result = judged(tmp_path, recorded(tmp_path, synced=True), BlindLater())
    assert (result.verdict, result.explored.coverage.lossy) == (Verdict.INCONCLUSIVE, 0)
    (reason,) = [one for one in result.reasons if "lacks nothing" in one]
    assert f"{OPERATIONS} operations are acknowledged and not there: 1-{OPERATIONS}" in reason
    control = kinds(result)[FindingKind.CONTROL]
    assert (control.verdict, control.states > 0) == (Verdict.INCONCLUSIVE, True)


def test_such_a_doubt_counts_for_what_other_states_lose_by_that_check(tmp_path: Path) -> None:
    result = judged(tmp_path, recorded(tmp_path, synced=False), BlindLater())
    assert result.verdict is Verdict.INCONCLUSIVE
    assert kinds(result)[FindingKind.LOST].verdict is Verdict.INCONCLUSIVE


def test_a_check_that_fails_from_some_time_on_is_found_out_at_the_end(tmp_path: Path) -> None:
    """What it looked at before, the whole folder among it, is in order; then it finds nothing."""
    looks = []

    def check(state: Path) -> Observation:
        looks.append(state)
        return Observation(()) if len(looks) > 20 else numbers(state)

    result = judged(tmp_path, recorded(tmp_path, synced=True), check)
    assert (result.verdict, result.explored.coverage.lossy) == (Verdict.INCONCLUSIVE, 0)
    assert any("lacks nothing" in one for one in result.reasons)


def test_an_ack_before_its_write_convicts_in_a_state_that_lacks_nothing_of_its_instant(
    tmp_path: Path,
) -> None:
    """The check finds each operation at the cut: so they came to be written after their acks."""
    recording = recorded(tmp_path, synced=True, early=True)
    result = judged(tmp_path, recording, numbers)
    assert result.verdict is Verdict.LOSSY
    lost = kinds(result)[FindingKind.LOST]
    assert any(one.missing == 0 for one in lost.examples), "with all that was issued by then"
    space = recording.under(Promise.JOURNAL).space
    state = CrashState(160, tuple(space.volatile(160).tolist()))
    with FolderJudge(
        recording.under(Promise.JOURNAL), lambda state, _: numbers(state), tmp_path
    ) as judge:
        assert judge.judge(state).lsns == frozenset()
        early = CrashState(207, tuple(space.volatile(207).tolist()))
        assert judge.judge(early).lsns == {2}
        assert judge.judge(CrashState(CUT, ())).lsns == frozenset()
