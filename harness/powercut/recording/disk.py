# SPDX-License-Identifier: Apache-2.0
"""A recorded disk, opened to look at its crash states.

It comes from a trial (trial.json, sealed) or from a foreign log (import.json, see
powercut_extras.logs.imports).  Both give the same thing: a base image, a timeline, what was
claimed, and what recovery consists of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from powercut.crash.applied import Kept
from powercut.crash.arrays import I64
from powercut.crash.claims import Claims
from powercut.crash.evidence import Evidence, gather
from powercut.crash.explore import InstantKind, events
from powercut.crash.legality import why_illegal
from powercut.crash.states import CrashState, StateSpace
from powercut.model.errors import UsageError
from powercut.model.history import History
from powercut.model.machine import ImageFormat
from powercut.model.operations import OperationHistory
from powercut.model.positive import PositiveControl
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER
from powercut.recording.state_names import instant_named, number_of, plain_state
from powercut.recording.state_ref import StateRef, serialise
from powercut.recover.plan import RecoveryPlan
from powercut.scenario.settings import Parameters
from powercut.store.trial_dir import IMPORT_FILE, TRIAL_FILE, TrialDir
from powercut.wal.layout import WalLayout
from powercut.workload.port import Promises
from powercut.workload.wal.promises import WalPromises


@dataclass(frozen=True)
class RecordedSystem:
    """The settings of a system, and exactly what it ran on (empty if that is not known)."""

    parameters: Parameters = field(default_factory=Parameters)
    versions: Mapping[str, str] = field(default_factory=dict)
    program_files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class DiskRecording:
    """One recorded disk, or several, read and checked: of a trial, or of a foreign log.

    `known_promises` is what was claimed where no record names itself: of a program.
    `layout` and `plan` are None if it is unknown where the records of a log lie: then
    there are states and no judgement.
    `imported` says that the timeline was made of a foreign log, whose instants are no
    times.  `image_format` is what the captured disk holds; unless it is raw, a file system
    is somewhere inside it.  `system` is what was recorded; of an imported log it is unknown, and
    the usual one stands in its place.  `gaps` says what is missing of the evidence; of these,
    `doubts` keep even a loss from being certain.  `blind` says why nothing follows from what the
    check of a program finds in any state; empty if something does.
    """

    directory: TrialDir
    title: str
    base: Path
    filesystem: str
    timeline: Timeline
    history: History
    run_id: bytes
    layout: WalLayout | None
    plan: RecoveryPlan | None
    imported: bool = False
    image_format: ImageFormat = ImageFormat.RAW
    system: RecordedSystem = field(default_factory=RecordedSystem)
    gaps: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    blind: str = ""
    positive: PositiveControl | None = None
    known_evidence: Evidence | None = None
    known_promises: Promises | None = None
    names_of_acks: tuple[str, ...] = ()

    state_forms: ClassVar[str] = (
        "cut, durable@T, everything@T, medium@T, flush:N, ack:LSN, or a state's identifier"
    )
    requests_word: ClassVar[str] = "writes"

    at_cut: ClassVar[tuple[CrashState, ...]] = ()

    def instants(self, kinds: Sequence[InstantKind]) -> I64:
        return events(self.space, kinds)

    def plan_at(self, instant: int) -> RecoveryPlan | None:
        """What recovery then consists of: the same, but where a check is told what was promised."""
        del instant
        return self.plan

    @property
    def named_by(self) -> str:
        """The file that names what is run to judge it."""
        return IMPORT_FILE if self.imported else TRIAL_FILE

    @property
    def noun(self) -> Literal["record", "operation", "mark"]:
        """What is acknowledged."""
        return "record" if self.known_promises is None else "operation"

    @property
    def parameters(self) -> Parameters:
        return self.system.parameters

    @property
    def layers(self) -> str:
        """What lies between the disk and the file system, by name; empty if nothing does."""
        return self.parameters.disk.layers_title

    @cached_property
    def evidence(self) -> Evidence:
        """The records found in the writes.  Raises UsageError without a layout."""
        if self.known_evidence is not None:
            return self.known_evidence
        if self.known_promises is not None:
            raise UsageError(
                f"{self.directory.path}: this is known of powercut's own log, not of programs",
                hint="powercut explore recovers its crash states, powercut audit flushes ranks its "
                "flushes",
            )
        if self.layout is None:
            raise UsageError(
                f"{self.directory.path}: the layout of the records in this log was not given",
                hint="import it again with --filesystem, or, of powercut's own, --layout",
            )
        return gather(self.timeline, self.history, self.run_id, self.layout, deep=True)

    @property
    def promises(self) -> Promises:
        """What was claimed.  Raises UsageError without a layout, if it takes one to know."""
        if self.known_promises is not None:
            return self.known_promises
        return WalPromises(self.evidence)

    @cached_property
    def space(self) -> StateSpace:
        """All crash states."""
        if self.known_promises is not None:
            return StateSpace(self.timeline, self.known_promises.requirements)
        if self.layout is None:
            return StateSpace(self.timeline)
        return StateSpace(self.timeline, self.evidence.claims, self.evidence.sets)

    @property
    def start_ns(self) -> int:
        """The instant from which times are told: the first attempt, else the first request."""
        if self.known_promises is not None and self.known_promises.start_ns is not None:
            return self.known_promises.start_ns
        if len(self.history.attempt_ns) and not self.imported:
            return int(self.history.attempt_ns[0])
        requests = self.timeline.requests
        return int(requests.submitted_ns[0]) if len(requests) else int(self.timeline.start_ns)

    @property
    def cut_ns(self) -> int | None:
        return None if self.timeline.cut is None else int(self.timeline.cut.at)

    @property
    def power_on_ns(self) -> int:
        return int(self.timeline.start_ns)

    def own_state(self, name: str) -> CrashState | None:
        if name == "cut":
            return cut_state(self.space)
        if name.startswith("medium@"):
            return medium_state(self.space, instant_named(self, name.removeprefix("medium@")))
        if name.startswith("flush:"):
            number = number_of(name.removeprefix("flush:"), name, self.state_forms)
            return plain_state(self.space, self._after_flush(number), everything=False)
        return None

    def after_ack(self, number: int) -> int:
        claims = self.space.claims
        if isinstance(claims, OperationHistory):
            if len(found := claims.ack_ns[claims.acked == number]):
                return int(found[0]) + 1
            raise UsageError(f"{self.noun} {number} was never acknowledged", hint="see `show`")
        if not isinstance(claims, Claims) or number > claims.acked:
            acked = claims.acked if isinstance(claims, Claims) else 0
            raise UsageError(
                f"record {number} was never acknowledged",
                hint=f"records 1 to {acked} were" if acked else "nothing was acknowledged",
            )
        return int(claims.acked_ns(np.array([number]))[0]) + 1

    def reference(self, state: CrashState) -> StateRef:
        return serialise(state)

    def why_not_legal(self, state: CrashState) -> list[str]:
        return why_illegal(self.space, state)

    def _after_flush(self, number: int) -> int:
        requests = self.timeline.requests
        flushes = np.flatnonzero(requests.kind == RequestKind.FLUSH)
        if number > len(flushes):
            raise UsageError(
                f"there is no flush {number}", hint=f"this recording has {len(flushes)} flushes"
            )
        done = int(self.space.completed_ns[flushes[number - 1]])
        if done == NEVER:
            raise UsageError(
                f"flush {number} never completed", hint="name an earlier one, or an instant"
            )
        return done + 1


def cut_state(space: StateSpace) -> CrashState:
    """What the live cut really left: durable(cut), what was destaged, and what survived.

    Raises UsageError if the power did not fail below the captured disk.
    """
    timeline = space.timeline
    if timeline.cut is None:
        raise UsageError(
            "the power never failed below this disk: there is no state `cut`",
            hint="name an instant: durable@T, everything@T, flush:N or ack:LSN",
        )
    return replace(medium_state(space, int(timeline.cut.at)), policy="cut")


def medium_state(space: StateSpace, instant: int) -> CrashState:
    """What the medium held at `instant`: durable(instant) and what had been destaged.

    At the cut also what survived it.
    """
    timeline = space.timeline
    durable = space.sets.durable(instant)
    there = [part for part in timeline.destaged if part.at < instant]
    if timeline.cut is not None and instant >= int(timeline.cut.at):
        there += timeline.survived
    kept: dict[int, list[tuple[int, int]]] = {}
    for part in there:
        if not durable[part.request]:
            kept.setdefault(part.request, []).append((part.offset, part.offset + part.length))
    torn = [
        Kept(write, begin, end)
        for write, ranges in sorted(kept.items())
        if ranges != [(int(space.begin[write]), int(space.end[write]))]
        for begin, end in sorted(ranges)
    ]
    return CrashState(instant, tuple(sorted(kept)), tuple(torn), policy="medium")
