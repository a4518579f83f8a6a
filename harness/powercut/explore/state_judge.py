# SPDX-License-Identifier: Apache-2.0
"""One crash state after the other: recovered by an engine and checked, as a live cut would be.

Whatever judges a state of a recording does it here: exploration, the search for a witness, and
the recorded kernel's last word.  They differ in their engines alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final

from powercut.checkers.judge import judge
from powercut.closing import ResourceOwner
from powercut.crash.states import CrashState, StateSpace
from powercut.explore.state_images import StateImages
from powercut.model.errors import UsageError
from powercut.model.observation import Observation
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict, lsn_ranges
from powercut.model.versions import HOST
from powercut.recording.consent import require_consent
from powercut.recording.disk import DiskRecording
from powercut.recover.order import EngineOrder
from powercut.recover.plan import RecoveryPlan
from powercut.recover.port import (
    BootsRecordedKernel,
    FollowsPlans,
    ImageWrite,
    RecoveryEngine,
    SecondLook,
)
from powercut.rig.engine_choice import EngineChoice, engine_for
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.engines import follows_plans, open_engine, start_engine
from powercut.rig.recovery import going_on
from powercut.rig.rig import require_recorded_program
from powercut.workload.port import LaterClaims, StateClaims
from powercut.workload.table import workload_of

START_S: Final = 180.0
_GUEST_STATE_S: Final = 120.0


@dataclass(frozen=True)
class Judgement:
    """What recovery of one state came to.  `verdict` is SAFE if there is no finding."""

    findings: tuple[Finding, ...]
    required: tuple[LsnRange, ...]

    @property
    def verdict(self) -> Verdict:
        return judge(self.findings)

    @property
    def lossy(self) -> tuple[Finding, ...]:
        """The findings that say that something is lost."""
        return tuple(f for f in self.findings if f.verdict is Verdict.LOSSY)

    @property
    def kinds(self) -> frozenset[FindingKind]:
        """The kinds of what is lost."""
        return frozenset(finding.kind for finding in self.lossy)

    @property
    def lsns(self) -> frozenset[int]:
        """The records that are lost."""
        spans = [span for finding in self.lossy for span in finding.lsns]
        return frozenset(lsn for span in spans for lsn in span)

    @property
    def lost(self) -> tuple[LsnRange, ...]:
        """The same as ranges."""
        return lsn_ranges(self.lsns)

    @property
    def message(self) -> str:
        """For a person."""
        return "; ".join(finding.message for finding in self.lossy or self.findings)


def claims_at(recording: DiskRecording, state: CrashState) -> StateClaims:
    """What was claimed at the instant of `state`, and promised after an earlier recovery of it."""
    claims = recording.promises.claims_at(state.instant)
    if state.again is None:
        return claims
    again = state.again
    return replace(claims, later=LaterClaims(again.promised, again.attempted, again.tried))


def claims_as_received(recording: DiskRecording, state: CrashState) -> StateClaims:
    """The same; but at the live cut all that was received until the channel was empty counts."""
    cut = recording.timeline.cut
    if cut is None or state.instant < int(cut.at):
        return claims_at(recording, state)
    return recording.promises.claims_received()


class StateJudge(ResourceOwner):
    """Recovers and checks states of one recording with one engine; a context manager.

    `after` is the number of records by which the workload goes on after each recovery; `again`
    says that recoveries of recoveries follow.  An engine that can be lent comes from the `shelf`,
    if there is one.
    """

    def __init__(
        self,
        recording: DiskRecording,
        choice: EngineChoice,
        *,
        after: int = 0,
        again: bool = False,
        track_reads: bool = False,
        shelf: EngineShelf | None = None,
        state_s: float | None = None,
    ) -> None:
        """Starts nothing.  Raises UsageError if nobody knows how the records lie, or if the check
        of a program does not see what is there."""
        super().__init__()
        require_seeing(recording)
        self.choice = choice
        plan = _known(recording)
        self._recording = recording
        self._plan = recording.plan
        self._system = recording.system
        self._shelf = shelf
        self._order = EngineOrder(
            recording.base,
            going_on(plan, self._system.parameters, recording.run_id, after, again=again),
            self._system.parameters,
            choice.kernel,
            track_reads,
        )
        self._images = StateImages(recording.space)
        usual_s = workload_of(self._system.parameters).recovery_s
        self.state_s = usual_s if state_s is None else state_s
        self._boots_before = 0
        self.engine: RecoveryEngine
        self.tests = 0

    @property
    def boots(self) -> int:
        """The systems that the engine has started for this judge."""
        return self.engine.boots - self._boots_before

    def _open(self, stack: ExitStack) -> None:
        if self._shelf is not None and self._lendable:
            self.engine = stack.enter_context(self._shelf.lend(self.choice.name, self._order))
            self._boots_before = self.engine.boots - 1  # the boot that made it is told by each
            return
        self.engine = open_engine(self.choice.name, self._order)
        start_engine(self.engine, stack, timeout_s=START_S)

    @property
    def _lendable(self) -> bool:
        return not self._order.track_reads and follows_plans(self.choice.name)

    def writes(self, state: CrashState, space: StateSpace | None = None) -> Sequence[ImageWrite]:
        """What `state` is, laid over the base image; of the recording's space if none is given."""
        return self._images.writes(state, space)

    def turn_to(self, instant: int) -> bool:
        """Has the engine recover by the plan of that instant; whether that is another."""
        plan, before = self._recording.plan_at(instant), self._plan
        if plan is None or plan is before:
            return False
        assert isinstance(self.engine, FollowsPlans), "such recordings have an engine that does"
        self.engine.follow(plan, timeout_s=START_S)
        self._plan = plan
        return True

    def recover(self, writes: Sequence[ImageWrite]) -> Observation:
        """What the system makes of a disk.  Raises HostError if the engine itself fails."""
        self.tests += 1
        return self.engine.recover(writes, timeout_s=self.state_s)

    def look_again(self, writes: Sequence[ImageWrite]) -> Observation:
        """The same, the longer way if the engine has two.  Raises HostError as `recover` does."""
        engine = self.engine
        if not isinstance(engine, SecondLook):
            return self.recover(writes)
        self.tests += 1
        return engine.look_again(writes, timeout_s=self.state_s)

    def findings(self, claims: StateClaims, observation: Observation) -> tuple[Finding, ...]:
        """The findings on what was recovered of a state, against what was claimed."""
        return self._recording.promises.check(claims, observation)

    def judge(
        self, state: CrashState, space: StateSpace | None = None, *, received: bool = True
    ) -> Judgement:
        """Recovers `state` and checks what came back.

        At the live cut everything counts that was `received`, else what was claimed before it.
        Raises HostError if the engine itself fails.
        """
        claims = (claims_as_received if received else claims_at)(self._recording, state)
        self.turn_to(state.instant)
        observation = self.recover(self.writes(state, space))
        return Judgement(self.findings(claims, observation), claims.required)


def open_judge(recording: DiskRecording, engine: str = "auto", *, kernel: str = HOST) -> StateJudge:
    """A judge with the engine that `engine` means for this recording; nothing is started.

    Raises UsageError if nobody knows how the records lie, or if `engine` cannot do this
    recording; HostError if that one does not work here, if a program is not the recorded one, or if
    it may not be run (powercut.recording.consent).
    """
    system = recording.system
    require_consent(recording.directory, system.parameters, recording.named_by)
    require_recorded_program(system.parameters, system.versions, system.program_files)
    raw = not _known(recording).filesystem
    choice = engine_for(recording.image_format, raw=raw, name=engine, kernel=kernel)
    return StateJudge(recording, choice)


def require_seeing(recording: DiskRecording) -> None:
    """Raises UsageError if nothing follows from what the check of a program finds."""
    if recording.blind:
        raise UsageError(
            f"{recording.directory.path}: {recording.blind}",
            hint="look at what is there (powercut shell), mend the check, and record again",
        )


def require_recorded_kernel(recording: DiskRecording, engine: str) -> None:
    """Raises HostError unless `engine` recovers with the kernel of the recording here."""
    system = recording.system
    order = EngineOrder(recording.base, _known(recording), system.parameters)
    made = open_engine(engine, order)
    if not isinstance(made, BootsRecordedKernel):
        raise UsageError(f"engine {engine} has a kernel of its own")
    made.require_kernel(system.versions)


def judge_in_guest(recording: DiskRecording, state: CrashState) -> Judgement:
    """What the recorded kernel makes of `state`, in a guest of its own.

    Raises UsageError and HostError as `guest_judge`.
    """
    with guest_judge(recording) as states:
        return states.judge(state)


def guest_judge(recording: DiskRecording, *, after: int = 0) -> StateJudge:
    """A judge with the recorded kernel, in a guest of its own; nothing is started.

    Raises UsageError for a recording that does not say what its guest was, and HostError
    if this host cannot run it, or has another kernel for it.
    """
    if recording.imported:
        raise UsageError("the guest that wrote an imported log is not known")
    guest = EngineChoice("guest")
    require_recorded_kernel(recording, guest.name)
    return StateJudge(recording, guest, after=after, state_s=_GUEST_STATE_S)


def _known(recording: DiskRecording) -> RecoveryPlan:
    _ = recording.promises  # which nobody knows of some imports
    assert recording.plan is not None
    return recording.plan
