# SPDX-License-Identifier: Apache-2.0
"""The rule of repetition by itself."""

from __future__ import annotations

import pytest

from powercut.checkers.repetition import repeated
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict

LOST = Finding(FindingKind.LOST, Verdict.LOSSY, "3 is gone", (LsnRange(3, 3),))
MORE = Finding(FindingKind.LOST, Verdict.LOSSY, "3 and 4 are gone", (LsnRange(3, 4),))
TORN = Finding(FindingKind.CORRUPT, Verdict.LOSSY, "3 is torn", (LsnRange(3, 3),))
UNKNOWN = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "no answer")


def test_what_loses_nothing_is_not_looked_at_again() -> None:
    assert repeated([UNKNOWN], lambda: pytest.fail("looked at again")) == (UNKNOWN,)
    assert repeated([], lambda: pytest.fail("looked at again")) == ()


@pytest.mark.parametrize("again", [[LOST], [TORN], [LOST, UNKNOWN]])
def test_what_is_lost_twice_counts(again: list[Finding]) -> None:
    assert repeated([LOST, UNKNOWN], lambda: again) == (LOST, UNKNOWN)


@pytest.mark.parametrize(
    ("again", "said"), [([], "nothing"), ([MORE], "3 and 4 are gone"), ([UNKNOWN], "no answer")]
)
def test_what_is_not_is_told_with_both_answers_and_convicts_nobody(
    again: list[Finding], said: str
) -> None:
    kept, told = repeated([LOST, UNKNOWN], lambda: again)
    assert kept == UNKNOWN
    assert (told.kind, told.verdict) == (FindingKind.DISAGREEMENT, Verdict.INCONCLUSIVE)
    assert told.lsns == (LsnRange(3, 3),)
    assert told.message.endswith(f"first (3 is gone), then ({said})")
