# SPDX-License-Identifier: Apache-2.0
"""Crash states of an imported log, under both of its readings.

Of powercut's own records they are those of the models `epoch` and `prefix`, of a log whose states
are checked also those of `exact`: what was in flight across a flush no such log says
(docs/formats/dm-log-writes.md).  What follows:

1. a state of the certain reading loses something, and the log has no doubts: LOSSY;
2. no state of the cautious reading loses anything, enough of them were checked
   (`_not_looked_at`), and the log is whole and without doubts: SAFE, as far as the model goes;
3. everything else: INCONCLUSIVE.

Of a check that is not powercut's own it has to be shown first that it sees: on the base image,
where nothing of the log was written, it must miss the last promise, and find it where all was
written that the log has until then.  A state convicts if what it lost is lost each time, and is
found at the same instant with nothing missing: what the check cannot find then is not the disk's
doing.

The exploration of the certain reading is kept beside the recording, whose states it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from powercut.checkers.repetition import ASKED
from powercut.crash.states import CrashState, Model
from powercut.explore.confirmation import DiskLastWord
from powercut.explore.disks import DiskMedium
from powercut.explore.explorer import ExplorerRun
from powercut.explore.request import ExploreRequest, Listener
from powercut.explore.state_judge import StateJudge, open_judge
from powercut.model.confidence import STATES_MIN
from powercut.model.errors import HostError, UsageError
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.recording.disk import DiskRecording
from powercut.recording.state_names import plain_state
from powercut.rig.engine_choice import EngineChoice
from powercut.store.exploration import ExploreResult, write_exploration
from powercut.store.trial_dir import TrialDir
from powercut_extras.logs.imports import open_import
from powercut_extras.logs.marks import CheckedLog

_LAST: Final = 8
"""Marks of which a check has to miss one on the base image: not each has to promise something."""

_RARE: Final = 100
_ENOUGH: Final = 0.95
"""A promise in so many that is not kept would have been met with this probability."""

USUAL: Final = ExploreRequest(model=Model.EPOCH)
"""What is asked for if nothing else is."""


@dataclass(frozen=True)
class ImportExploration:
    """Both readings, and the verdict with its reasons."""

    certain: ExploreResult
    cautious: ExploreResult | None
    """None if the certain one convicts."""

    verdict: Verdict
    reasons: tuple[str, ...]
    marks: tuple[str, ...] = ()
    """The names of what is lost by number; empty if it has none."""

    @property
    def as_kept(self) -> ExploreResult:
        """The exploration of the certain reading, with the verdict on both."""
        findings = self.certain.findings
        if self.verdict is not Verdict.LOSSY:
            doubtful = {"verdict": Verdict.INCONCLUSIVE}
            findings = tuple(one.model_copy(update=doubtful) for one in findings)
        return self.certain.model_copy(update={"verdict": self.verdict, "findings": findings})


def explore_import(
    directory: TrialDir,
    wanted: ExploreRequest = USUAL,
    *,
    on_event: Listener = lambda _: None,
) -> ImportExploration:
    """Checks the states of the log in `directory`; the budget is that of each reading.

    Raises UsageError for a model that such a log cannot carry, or without a word on how the
    records lie, and HostError.
    """
    certain = open_import(directory)
    checked = isinstance(certain, CheckedLog)
    if wanted.model is Model.EXACT and not checked:
        raise UsageError(
            "model exact is not meaningful for an imported log of records",
            hint="no such log says which writes were in flight; choose epoch or prefix",
        )
    with open_judge(certain, wanted.engine, kernel=wanted.kernel) as judge:
        choice = judge.choice
        doubts = _doubts_of_checks(certain, judge) if isinstance(certain, CheckedLog) else ()
    run = ExplorerRun(LogMedium(certain, wanted, choice), wanted, on_event)
    if doubts:  # nothing would follow from it
        judged = ImportExploration(run.result(), None, Verdict.INCONCLUSIVE, doubts)
    else:
        found, careful = run.explore(), None
        if found.verdict is not Verdict.LOSSY or certain.doubts:
            cautious = open_import(directory, cautious=True)
            medium = LogMedium(cautious, wanted, choice, cautious=True)
            careful = ExplorerRun(medium, wanted, on_event, keep=False).explore()
        judged = _judged(found, careful, certain)
    write_exploration(directory, judged.as_kept)
    return replace(judged, marks=certain.names_of_acks)


class LogMedium(DiskMedium):
    """A log as the explorer sees it."""

    def __init__(
        self,
        recording: DiskRecording,
        wanted: ExploreRequest,
        engine: EngineChoice,
        *,
        cautious: bool = False,
    ) -> None:
        super().__init__(recording, wanted, engine)
        self.opens = partial(open_import, cautious=cautious)
        self.gaps = ()  # the verdict tells them
        if isinstance(recording, CheckedLog):
            opened = partial(StateJudge, recording, engine)
            self.last_word = LogLastWord(recording, opened, ASKED, other=False)

    def bulk(self, *_: object) -> None:
        """None: each state is judged alone."""


@dataclass(frozen=True)
class LogLastWord(DiskLastWord):
    """Asks the check of a log again, and of the disk with nothing missing."""

    recorded: CheckedLog

    def excuse(self, states: StateJudge, state: CrashState, found: Finding) -> str:
        """The same is found with nothing missing: the check never finds it, or what was written
        since the promise has taken it away.

        A file system has to be whole at any time.
        """
        lost, promise = _lost([found]), self.recorded.last_promise_before(state.instant)
        if not lost & _lost(_of_whole(self.recorded, states, state.instant, state.instant)):
            return ""
        if lost & _lost(_of_whole(self.recorded, states, state.instant, self.recorded.end)):
            return f"with nothing missing, too: {found.message}"
        if found.kind is FindingKind.NOT_RECOVERED or promise is None:
            return ""
        if lost & _lost(_of_whole(self.recorded, states, state.instant, promise)):
            return ""
        return f"with nothing missing, too, and it was there when it was promised: {found.message}"


def _lost(findings: Iterable[Finding]) -> set[tuple[FindingKind, LsnRange | None]]:
    lossy = (one for one in findings if one.verdict is Verdict.LOSSY)
    return {(one.kind, span) for one in lossy for span in one.lsns or (None,)}


def _of_whole(recording: CheckedLog, judge: StateJudge, instant: int, at: int) -> Sequence[Finding]:
    """What is found, of what was promised by `instant`, where nothing is missing of the writes that
    the log has until `at`.  At its end that is all: the kernel logs a write that no flush followed
    there, long after the marks that had to wait for it.
    """
    judge.turn_to(instant)
    state = plain_state(recording.space, at, everything=True)
    claims = recording.promises.claims_at(instant)
    return judge.findings(claims, judge.recover(judge.writes(state)))


def _told(findings: Sequence[Finding]) -> str:
    return "; ".join(finding.message for finding in findings)


def _doubts_of_checks(recording: CheckedLog, judge: StateJudge) -> tuple[str, ...]:
    """Why nothing follows from what is asked of the states of this log.

    Raises UsageError if the base image does not mount.
    """
    try:
        judge.recover(())
    except HostError as error:
        raise UsageError(
            f"the base image does not recover: {error}",
            hint="--base is the whole disk as it was before logging began",
        ) from error
    last = recording.last_promise_before(recording.end)
    until = last or recording.end
    found = _of_whole(recording, judge, until, until)
    if found and _of_whole(recording, judge, until, recording.end):
        return (
            "with all that was written, what was promised last is not there: "
            f"{_told(found)}: the base image is not that of this log, or the check is wrong",
        )
    if last is None or not recording.checks.command:
        return ()
    acks = recording.promises.requirements.ack_ns[-_LAST:].tolist()
    for instant in (int(at) + 1 for at in reversed(acks)):
        judge.turn_to(instant)
        if judge.findings(recording.promises.claims_at(instant), judge.recover(())):
            return ()
    return (
        f"the check does not see what is lost: of the last {len(acks)} marks it is content with "
        "the disk as it was before logging began, too",
    )


def _judged(
    certain: ExploreResult,
    cautious: ExploreResult | None,
    recording: DiskRecording,
) -> ImportExploration:
    """The rules at the head of this file."""
    gaps = list(recording.gaps)
    if certain.verdict is Verdict.LOSSY and cautious is None:
        what = "are not as promised" if isinstance(recording, CheckedLog) else "lose records"
        lose = f"{certain.coverage.lossy} states that were legal for certain {what}"
        return ImportExploration(certain, None, Verdict.LOSSY, (lose,))
    assert cautious is not None, "it is looked at where the other does not convict"
    if certain.verdict is Verdict.LOSSY:
        gaps.append("states lose records, but the log has doubts")
    elif cautious.verdict is Verdict.LOSSY:
        gaps.append("states lose records that may not have been legal")
    if isinstance(recording, CheckedLog):
        gaps += recording.missing_marks
    elif not recording.history.acked:
        gaps.append("nothing was acknowledged: the log has no mark `ack N`")
    elif not len(recording.evidence.runs):
        gaps.append("no record of this run is in the log: run id or layout may be wrong")
    gaps += _not_looked_at(certain, cautious)
    unknown = (
        f"{one.kind.value}: {one.examples[0].message}"
        for result in (certain, cautious)
        for one in result.findings
        if one.verdict is Verdict.INCONCLUSIVE
    )
    gaps += dict.fromkeys(unknown)
    verdict = Verdict.INCONCLUSIVE if gaps else Verdict.SAFE
    return ImportExploration(certain, cautious, verdict, tuple(gaps))


def _not_looked_at(certain: ExploreResult, cautious: ExploreResult) -> Iterator[str]:
    """Of a weaker model all states have to be checked, of the exact one those just after marks, or
    as many as would have met one bad promise in `_RARE`; and `STATES_MIN`, as of a program, unless
    there are no more.
    """
    covered = [certain.coverage, cautious.coverage]
    if certain.model != Model.EXACT.value:
        if not all(one.exhausted for one in covered):
            yield "not every state was checked"
        return
    fewest = min(covered, key=lambda one: one.distinct)
    if fewest.distinct < STATES_MIN and not fewest.exhausted:
        yield f"only {fewest.distinct} states were checked: give a larger --budget"
    for acks in (one.at_acks for one in covered if one.at_acks is not None):
        met = max((one.met for one in acks.chances if one.one_in == _RARE), default=0.0)
        if acks.looked_at < acks.acks and met < _ENOUGH:
            yield (
                f"{acks.acks - acks.looked_at} of {acks.acks} marks were not looked at: a promise "
                f"in {_RARE} that is not kept may have been missed; give a larger --budget"
            )
            return
