# SPDX-License-Identifier: Apache-2.0
"""What a SAFE of a captured folder rests on, piece by piece."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from powercut.crash.folder_rows import Promise
from powercut.model.outside import Outside
from powercut.model.positive import PositiveControl, Whole
from powercut.model.reads import CheckReads
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.store.exploration import (
    ExplorationFinding,
    ExploreCoverage,
    ExploreResult,
    FoundState,
)
from powercut.store.folder import FolderSeen
from powercut.verdict import untested
from powercut.verdict.folder import verdict_of_capture
from powercut.verdict.untested import BOOT_OF_THE_HOST


def recording(
    acked=12, gaps=(), doubts=(), files=(), share="", refused=(), inodes=(), keeps="every"
):
    """What a verdict looks at of one."""
    history = SimpleNamespace(acked=range(acked), attempted=range(acked), keeps=keeps)
    return SimpleNamespace(
        gaps=gaps,
        folder=SimpleNamespace(requests=()),
        doubts=doubts,
        refused=refused,
        outside=lambda *, alone: Outside(files, alone=alone),
        history=history,
        start_ns=0,
        record=SimpleNamespace(cut_ns=1, share=share, inodes=inodes),
        space=SimpleNamespace(rows=()),
        promise=Promise.JOURNAL,
    )


LOST = Finding(FindingKind.LOST, Verdict.LOSSY, "gone", (LsnRange(1, 12),))
CONTRADICTION = Finding(FindingKind.NOT_RECOVERED, Verdict.LOSSY, "bad header")
UNKNOWN = ExplorationFinding(
    kind=FindingKind.INCOMPLETE, verdict=Verdict.INCONCLUSIVE, states=1, distinct=1, lsns=(),
    by_policy={}, examples=(),
)  # fmt: skip
COVERAGE = ExploreCoverage(
    instants=32, instants_all=40, legal_log2=20.0, distinct=32, recovered=20, pruned=12,
    pruned_rerun=0, repeated=0, by_policy={"durable-only": 32}, exhausted=False, not_looked_at="",
)  # fmt: skip
EXPLORED = ExploreResult(
    powercut="0", scenario="capture", cell="run", trial=1, engine="check", model="exact",
    policies=(), at=(), budget="400", prune="bytes", seed=1, jobs=1, seconds=1.0,
    coverage=COVERAGE, findings=(), verdict=Verdict.SAFE,
)  # fmt: skip
SEEN = FolderSeen(EXPLORED, control=(LOST,))


def seen(findings=(), **changes):
    coverage = COVERAGE.model_copy(update=changes)
    update = {"coverage": coverage, "findings": findings}
    return replace(SEEN, explored=EXPLORED.model_copy(update=update))


def verdict_on(whole, found):
    return verdict_of_capture(whole, found, state_s=10.0)


def test_one_that_has_it_all_is_safe():
    result = verdict_on(recording(), SEEN)
    assert (result.verdict, result.reasons, result.control) == (Verdict.SAFE, (), "LOSSY")
    assert result.explored == EXPLORED


@pytest.mark.parametrize(
    ("budget", "exhausted", "told"),
    [
        ("320,90s", False, True),
        ("320", False, False),
        ("90s", False, False),
        ("320,90s", True, False),
    ],
)
def test_states_that_time_was_too_short_for_are_told_as_not_tested(budget, exhausted, told):
    found = seen(exhausted=exhausted)
    found = replace(found, explored=found.explored.model_copy(update={"budget": budget}))
    result = verdict_on(recording(), found)
    said = "288 of the 320 crash states of its files that --budget asks for: its 90s were over"
    assert result.verdict is Verdict.SAFE
    assert (said in result.untested) == told


@pytest.mark.parametrize(("lossy", "why"), [(8, "a loss was certain"), (7, "its 90s were over")])
def test_states_that_a_certain_loss_left_out_are_told_so(lossy, why):
    found = seen(lossy=lossy)
    explored = found.explored.model_copy(update={"budget": "320,90s"})
    untested = verdict_on(recording(), replace(found, explored=explored)).untested
    assert f"288 of the 320 crash states of its files that --budget asks for: {why}" in untested


@pytest.mark.parametrize(("keeps", "words"), [("prefix", "a hole"), ("opens", "that it opens")])
def test_acks_that_a_program_does_not_promise_to_keep_are_told_as_not_tested(keeps, words):
    result = verdict_on(recording(keeps=keeps), SEEN)
    assert (result.verdict, result.keeps) == (Verdict.SAFE, keeps)
    assert words in result.untested[0]


def test_words_of_a_read_only_file_system_are_a_reason_where_something_failed():
    words = "cp: cannot create '/etc/x': Read-only file system"
    result = verdict_on(recording(refused=(words,)), SEEN)
    assert (result.verdict, result.reasons) == (Verdict.SAFE, ())
    assert [one for one in result.untested if one.endswith(words)]
    unseen = replace(SEEN, positive=PositiveControl(Whole.ISSUED, 0, 12, (LsnRange(1, 12),)))
    for whole, found in (
        (recording(acked=9, refused=(words,)), SEEN),
        (recording(refused=(words,)), unseen),
    ):
        result = verdict_on(whole, found)
        assert result.verdict is Verdict.INCONCLUSIVE
        assert len([one for one in result.reasons if one.endswith(words)]) == 1
        assert not [one for one in result.untested if one.endswith(words)]


def test_inode_numbers_are_a_reason_where_the_check_finds_less():
    kept = recording(inodes=("registry",))
    assert verdict_on(kept, SEEN).reasons == ()
    found = PositiveControl(Whole.ISSUED, 0, 12, (LsnRange(1, 12),))
    _, why = verdict_on(kept, replace(SEEN, positive=found, control=None)).reasons
    assert why.startswith("inode numbers of other files stand in registry, and in a state's folder")


@pytest.mark.parametrize(
    ("whole", "found", "why"),
    [
        (recording(gaps=("its log was cut off",)), SEEN, "its log was cut off"),
        (recording(acked=9), SEEN, "9 operations were acknowledged"),
        (recording(), FolderSeen(EXPLORED, doubts=("it finds 3 before",)), "it finds 3 before"),
        (recording(), replace(SEEN, control=()), "the control did not lose anything"),
        (recording(), replace(SEEN, control=(CONTRADICTION,)), "the control did not lose anything"),
        (recording(), seen(distinct=31), "only 31 states were looked at"),
        (recording(), seen(findings=(UNKNOWN,)), ""),
    ],
    ids=["gap", "few", "before", "control", "contradiction", "states", "unknown"],
)
def test_what_lacks_a_piece_is_inconclusive_and_says_which(whole, found, why):
    result = verdict_on(whole, found)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert [reason[: len(why)] for reason in result.reasons] == ([why] if why else [])


def test_a_check_that_does_not_see_what_is_there_is_told():
    blind = PositiveControl(Whole.ISSUED, 0, 12, (LsnRange(1, 12),))
    unseen = FolderSeen(EXPLORED, positive=blind)
    result = verdict_on(recording(), unseen)
    assert (result.verdict, result.control) == (Verdict.INCONCLUSIVE, "")
    assert result.reasons == (blind.message,)
    assert "it found 0 of 12 operations" in blind.message
    result = verdict_on(recording(files=("/tmp/x",)), unseen)
    assert result.reasons == (blind.message, Outside(("/tmp/x",)).words)


@pytest.mark.parametrize(
    ("reads", "verdict"),
    [
        (CheckReads(3), Verdict.SAFE),
        (CheckReads(0), Verdict.INCONCLUSIVE),
        (None, Verdict.SAFE),
    ],
    ids=["some in DIR", "none in DIR", "unknown"],
)
def test_files_outside_are_named_and_where_there_are_no_others_nothing_was_tested(reads, verdict):
    result = verdict_on(recording(files=("/tmp/x",)), replace(SEEN, reads=reads))
    assert (result.verdict, "/tmp/x" in result.outside.words) == (verdict, True)
    assert verdict_on(recording(), replace(SEEN, reads=reads)).verdict is Verdict.SAFE


def test_few_states_are_enough_where_there_are_no_others():
    assert verdict_on(recording(), seen(distinct=5, exhausted=True)).verdict is Verdict.SAFE


@pytest.mark.parametrize(
    "changes", [{"lossy": 1}, {"recovery_states": 4, "recovery_lossy": 1, "lossy": 1}]
)
def test_what_one_state_loses_is_lost(changes):
    loss = UNKNOWN.model_copy(update={"kind": FindingKind.LOST, "verdict": Verdict.LOSSY})
    assert verdict_on(recording(), seen(findings=(loss,), **changes)).verdict is Verdict.LOSSY


def test_what_was_not_borne_out_is_no_loss_however_many_states_have_it():
    found = UNKNOWN.model_copy(update={"kind": FindingKind.LOST})
    assert verdict_on(recording(), seen(findings=(found,), lossy=9)).verdict is Verdict.INCONCLUSIVE


def test_why_a_check_is_not_believed_is_a_reason():
    example = FoundState(id="", policy="", instant=-1, lsns=(), message="it contradicts itself")
    doubt = UNKNOWN.model_copy(update={"kind": FindingKind.CONTROL, "examples": (example,)})
    result = verdict_on(recording(), seen(findings=(doubt,)))
    assert (result.verdict, result.reasons) == (Verdict.INCONCLUSIVE, ("it contradicts itself",))


def test_of_a_recording_that_its_host_damaged_nothing_follows():
    damaged = recording(acked=0, gaps=("no room",), doubts=("no room",))
    result = verdict_on(damaged, FolderSeen(seen(distinct=0).explored))
    assert (result.verdict, result.reasons) == (Verdict.INCONCLUSIVE, ("no room",))


def test_where_a_check_sees_the_boot_of_the_host_it_is_said(monkeypatch):
    """Not of a command that ran in a guest, which has booted by itself."""
    monkeypatch.setattr(untested, "new_clocks", lambda: [])
    assert verdict_on(recording(), SEEN).untested == (BOOT_OF_THE_HOST,)
    assert verdict_on(recording(share="virtiofs"), SEEN).untested == ()
    monkeypatch.setattr(untested, "new_clocks", lambda: ["unshare", "--time", "--"])
    assert verdict_on(recording(), SEEN).untested == ()
