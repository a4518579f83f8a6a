# SPDX-License-Identifier: Apache-2.0
"""The rule of repetition by itself."""

from __future__ import annotations

import pytest

from powercut.checkers.repetition import NOT_ASKED, Repeats, repeated
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict

LOST = Finding(FindingKind.LOST, Verdict.LOSSY, "3 is gone", (LsnRange(3, 3),))
MORE = Finding(FindingKind.LOST, Verdict.LOSSY, "3 and 4 are gone", (LsnRange(3, 4),))
TORN = Finding(FindingKind.CORRUPT, Verdict.LOSSY, "3 is torn", (LsnRange(3, 3),))
UNKNOWN = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "no answer")


def test_what_loses_nothing_is_not_looked_at_again() -> None:
    never = lambda: pytest.fail("looked at again")  # noqa: E731
    assert repeated([UNKNOWN], never) == ((UNKNOWN,), NOT_ASKED)
    assert repeated([], never) == ((), NOT_ASKED)


@pytest.mark.parametrize("again", [[LOST], [TORN], [LOST, UNKNOWN]])
def test_what_is_lost_twice_counts(again: list[Finding]) -> None:
    assert repeated([LOST, UNKNOWN], lambda: again) == ((LOST, UNKNOWN), Repeats(1))
    assert repeated([LOST], lambda: again, looks=5) == ((LOST,), Repeats(4))


@pytest.mark.parametrize(
    ("again", "said"), [([], "nothing"), ([MORE], "3 and 4 are gone"), ([UNKNOWN], "no answer")]
)
def test_what_is_not_is_told_with_both_answers_and_convicts_nobody(
    again: list[Finding], said: str
) -> None:
    (kept, told), repeats = repeated([LOST, UNKNOWN], lambda: again)
    assert repeats == Repeats(1, 1)
    assert kept == UNKNOWN
    assert (told.kind, told.verdict) == (FindingKind.DISAGREEMENT, Verdict.INCONCLUSIVE)
    assert told.lsns == (LsnRange(3, 3),)
    assert told.message.endswith(f"first (3 is gone), then ({said})")


@pytest.mark.parametrize("same", range(5))
def test_what_convicts_loses_the_same_each_time_and_is_asked_no_more_after_another_answer(
    same: int,
) -> None:
    answers = iter([*[[LOST]] * same, [MORE]])
    found, repeats = repeated([LOST], lambda: next(answers), looks=5)
    if same == 4:
        assert (found, repeats) == ((LOST,), Repeats(4))
        return
    (told,) = found
    assert (told.verdict, repeats) == (Verdict.INCONCLUSIVE, Repeats(same + 1, 1))
    assert ("recovered twice" in told.message) is (same == 0)


@pytest.mark.parametrize(
    ("asked", "differed", "doubted"),
    [(0, 0, False), (10, 1, False), (9, 1, True), (1, 1, True), (21, 2, False), (21, 18, True)],
)
def test_a_check_contradicts_itself_if_more_than_a_tenth_of_its_repeats_differ(
    asked: int, differed: int, doubted: bool
) -> None:
    doubt = Repeats(asked, differed).doubt
    assert bool(doubt) is doubted
    if doubted:
        assert f"in {differed} of {asked} cases" in doubt
    assert Repeats(asked, differed) + Repeats(3, 1) == Repeats(asked + 3, differed + 1)


FOUR = Finding(FindingKind.LOST, Verdict.LOSSY, "4 is gone", (LsnRange(4, 4),))


def test_a_cluster_loses_one_of_the_same_each_time_and_who_is_elected_decides_which() -> None:
    """Its first answer counts; nothing in common is a contradiction there, too."""
    nodes = ("a", "b", "c")
    answers = iter([[LOST], [FOUR], [MORE, UNKNOWN], [LOST]])
    assert repeated([MORE], lambda: next(answers), looks=5, nodes=nodes) == ((MORE,), Repeats(4))
    for other in ([FOUR], [], [UNKNOWN]):
        (told,), repeats = repeated([LOST], lambda other=other: other, looks=5, nodes=nodes)
        assert (told.kind, repeats) == (FindingKind.DISAGREEMENT, Repeats(1, 1))
    assert repeated([LOST], lambda: [MORE], looks=5)[1] == Repeats(1, 1)
