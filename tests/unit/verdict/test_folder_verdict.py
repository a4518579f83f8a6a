# SPDX-License-Identifier: Apache-2.0
"""What a SAFE of a captured folder rests on, piece by piece."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from powercut.model.positive import PositiveControl, Whole
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.store.folder import CaptureStates, FolderSeen, StateFinding
from powercut.verdict.folder import verdict_of_capture

WHOLE = SimpleNamespace(gaps=(), doubts=(), elsewhere="")
CUT_OFF = SimpleNamespace(gaps=("its log was cut off",), doubts=(), elsewhere="")
LOST = Finding(FindingKind.LOST, Verdict.LOSSY, "gone", (LsnRange(1, 12),))
CONTRADICTION = Finding(FindingKind.NOT_RECOVERED, Verdict.LOSSY, "bad header")
UNKNOWN = StateFinding(kind="incomplete", verdict="INCONCLUSIVE", message="no answer")
STATES = CaptureStates(
    promise="journal", attempted=12, acknowledged=12, run_s=1.0, writes=24, syncs=12, changes=0,
    states=32, distinct=20, lossy_states=0, by_policy={"durable-only": 32}, instants=32,
    legal_log2=20.0, seconds=1.0, budget="400", seed=1, state_s=10.0,
)  # fmt: skip
SEEN = FolderSeen(STATES, control=(LOST,))


def seen(**changes):
    return replace(SEEN, states=STATES.model_copy(update=changes))


def test_one_that_has_it_all_is_safe():
    result = verdict_of_capture(WHOLE, SEEN)
    assert (result.verdict, result.reasons, result.control) == ("SAFE", (), "LOSSY")
    assert result.model_dump(include=set(CaptureStates.model_fields)) == STATES.model_dump()


@pytest.mark.parametrize(
    ("recording", "found", "why"),
    [
        (CUT_OFF, SEEN, "its log was cut off"),
        (WHOLE, seen(acknowledged=9), "9 operations were acknowledged"),
        (WHOLE, FolderSeen(STATES, doubts=("it finds 3 before",)), "it finds 3 before"),
        (WHOLE, replace(SEEN, control=()), "the control did not lose anything"),
        (WHOLE, replace(SEEN, control=(CONTRADICTION,)), "the control did not lose anything"),
        (WHOLE, seen(states=31), "only 31 states were looked at"),
        (WHOLE, seen(findings=(UNKNOWN,)), ""),
    ],
    ids=["gap", "few", "before", "control", "contradiction", "states", "unknown"],
)
def test_what_lacks_a_piece_is_inconclusive_and_says_which(recording, found, why):
    result = verdict_of_capture(recording, found)
    assert result.verdict == "INCONCLUSIVE"
    assert [reason[: len(why)] for reason in result.reasons] == ([why] if why else [])


def test_a_check_that_does_not_see_what_is_there_is_told():
    blind = PositiveControl(Whole.ISSUED, 0, 12, (LsnRange(1, 12),))
    result = verdict_of_capture(WHOLE, FolderSeen(STATES.model_copy(update={"positive": blind})))
    assert (result.verdict, result.control) == ("INCONCLUSIVE", "")
    assert result.reasons == (blind.message,)
    assert "it found 0 of 12 operations" in blind.message
    outside = SimpleNamespace(gaps=(), doubts=(), elsewhere="it wrote in /srv, too")
    result = verdict_of_capture(outside, FolderSeen(STATES.model_copy(update={"positive": blind})))
    assert result.reasons == (blind.message, "it wrote in /srv, too")


def test_few_states_are_enough_where_there_are_no_others():
    assert verdict_of_capture(WHOLE, replace(seen(states=5), exhausted=True)).verdict == "SAFE"


@pytest.mark.parametrize("changes", [{"lossy_states": 1}, {"second_states": 4, "second_lossy": 1}])
def test_what_one_state_loses_is_lost(changes):
    assert verdict_of_capture(WHOLE, seen(**changes)).verdict == "LOSSY"


def test_of_a_recording_that_its_host_damaged_nothing_follows():
    damaged = SimpleNamespace(gaps=("no room",), doubts=("no room",), elsewhere="")
    nothing = STATES.model_copy(update={"states": 0, "acknowledged": 0})
    result = verdict_of_capture(damaged, FolderSeen(nothing))
    assert (result.verdict, result.reasons) == ("INCONCLUSIVE", ("no room",))
