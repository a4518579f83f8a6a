# SPDX-License-Identifier: Apache-2.0
"""The marks of somebody's log, as promises.

A mark is sent once something is to be durable, so a cut after it is held against it.  Marks are
numbered in the order of the log, from 1; that with which the kernel ends a log is none, nor are
those that powercut's own logs have for attempts and facts.

- A check that is told the name of a mark speaks of that one alone: a state is held against the last
  mark before its instant.
- A program's check speaks of operations: a mark `ack N` acknowledges operation N, and
  `attempt N` says that it is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from powercut.crash.arrays import I64
from powercut.crash.states import CrashState
from powercut.model.errors import UsageError
from powercut.model.history import History
from powercut.model.observation import Observation
from powercut.model.operations import OperationHistory
from powercut.model.timeline import Timeline
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.recording.disk import DiskRecording
from powercut.recording.state_names import plain_state
from powercut.recover.plan import RecoveryPlan
from powercut.workload.port import StateClaims
from powercut.workload.program.promises import ProgramPromises
from powercut_extras.logs.checks import FSCK, NO_VERDICT, Answer, Asked, LogChecks, answers_of
from powercut_extras.logs.timeline import is_promise


@dataclass(frozen=True)
class Marks:
    """Their names in the order of the log, and the instants at which they were sent."""

    names: tuple[str, ...]
    at_ns: I64

    @classmethod
    def of(cls, timeline: Timeline) -> Marks:
        """Those of a log."""
        marks = [(int(at), name) for at, name in timeline.marks if is_promise(name)]
        return cls(tuple(name for _, name in marks), np.array([at for at, _ in marks], np.int64))

    def before(self, instant: int) -> int:
        """How many were sent before `instant`: the number of the last of them."""
        return int(np.searchsorted(self.at_ns, instant, side="left"))

    @property
    def history(self) -> OperationHistory:
        """Each as an operation that was acknowledged when it was sent."""
        numbers = np.arange(1, len(self.names) + 1, dtype=np.int64)
        return OperationHistory(numbers, self.at_ns, numbers, self.at_ns)


@dataclass(frozen=True)
class LogPromises(ProgramPromises):
    """What a log promises whose states are mounted, and whose file system is checked."""

    filesystem: str

    def check(self, claims: StateClaims, observation: Observation) -> tuple[Finding, ...]:
        """What those who were asked said of one state."""
        if not observation.recovered or not observation.complete:
            return super().check(claims, observation)
        told, lines = answers_of(observation.lines)
        return (*self._of_check(claims, told.get(Asked.CHECK), lines), *self._of_fsck(told))

    def _of_check(
        self, claims: StateClaims, told: Answer | None, lines: bytes
    ) -> Iterator[Finding]:
        del claims, told, lines
        yield from ()

    def _of_fsck(self, told: dict[Asked, Answer]) -> Iterator[Finding]:
        if (row := FSCK.get(self.filesystem)) is None:
            return
        answer, name = told.get(Asked.FSCK), " ".join(row.words)
        if answer is None:
            yield Finding.unknown(f"{name} did not answer")
        elif answer.status in row.wrong:
            message = f"after recovery {name} finds errors: {answer}"
            yield Finding(FindingKind.NOT_RECOVERED, Verdict.LOSSY, message)
        elif answer.status:
            yield Finding.unknown(f"{name} did not come to its end: {answer}")


@dataclass(frozen=True)
class MarkPromises(LogPromises):
    """The same where a check is told the name of the last mark."""

    marks: tuple[str, ...]

    def _of_check(
        self, claims: StateClaims, told: Answer | None, lines: bytes
    ) -> Iterator[Finding]:
        del lines
        number = claims.required[-1].last if claims.required else 0
        if not number:
            return
        mark = f"mark {number}, {self.marks[number - 1]!r}"
        if told is None:
            yield Finding.unknown(f"{mark}: the check did not answer")
        elif told.status >= NO_VERDICT:
            yield Finding.unknown(f"{mark}: the check did not come to its end: {told}")
        elif told.status:
            message = f"{mark}, is not kept: the check ended with {told}"
            yield Finding(FindingKind.LOST, Verdict.LOSSY, message, (LsnRange(number, number),))


@dataclass(frozen=True)
class AckPromises(LogPromises):
    """The same where a program's check reports operations.

    Where the log has no `attempts`, any operation may have been tried.
    """

    attempts: bool

    def _of_check(
        self, claims: StateClaims, told: Answer | None, lines: bytes
    ) -> Iterator[Finding]:
        del told
        for finding in ProgramPromises.check(self, claims, Observation((), lines=lines)):
            if self.attempts or finding.kind is not FindingKind.NEVER_ATTEMPTED:
                yield finding


@dataclass(frozen=True, kw_only=True)
class CheckedLog(DiskRecording):
    """A log whose states are mounted and checked."""

    checks: LogChecks
    marks: Marks
    _plans: dict[int, RecoveryPlan] = field(default_factory=dict, compare=False)

    state_forms: ClassVar[str] = (
        "durable@T, everything@T, flush:N, ack:N or mark:NAME, or a state's identifier"
    )

    def plan_at(self, instant: int) -> RecoveryPlan:
        """With the name of the last mark."""
        number = self.marks.before(instant) if self._by_name else 0
        if number not in self._plans:
            mark = self.marks.names[number - 1] if number else None
            self._plans[number] = self.checks.plan(self.filesystem, mark)
        return self._plans[number]

    def own_state(self, name: str) -> CrashState | None:
        """`mark:NAME`: durable-only just after that mark, the first of that name."""
        if not name.startswith("mark:"):
            return super().own_state(name)
        wanted = name.removeprefix("mark:")
        if wanted not in self.marks.names:
            raise UsageError(f"the log has no mark {wanted!r}", hint="`powercut show` lists them")
        at = int(self.marks.at_ns[self.marks.names.index(wanted)])
        return plain_state(self.space, at + 1, everything=False)

    @property
    def noun(self) -> Literal["record", "operation", "mark"]:
        """Of a program's check operations."""
        return "operation" if self.checks.program else "mark"

    @property
    def missing_marks(self) -> tuple[str, ...]:
        """Why nothing was promised, if a check is asked; empty if something was."""
        if not self.checks.command or len(self.promises.requirements.ack_ns):
            return ()
        if self.checks.program:
            return ("nothing was acknowledged: the log has no mark `ack N`",)
        return ("nothing was promised: the log has no mark, and the check was not called",)

    @cached_property
    def end(self) -> int:
        """After everything."""
        last = [self.space.sets.submitted_ns, self.marks.at_ns]
        return max(int(at.max(initial=0)) for at in last) + 1

    def last_promise_before(self, instant: int) -> int | None:
        """The instant just after the last ack or mark before `instant`; None if there is none."""
        acks = self.promises.requirements.ack_ns
        count = int(np.searchsorted(acks, instant, side="left"))
        return int(acks[count - 1]) + 1 if count else None

    @property
    def _by_name(self) -> bool:
        return bool(self.checks.command) and not self.checks.program


def checked_log(known: DiskRecording, checks: LogChecks, history: History) -> CheckedLog:
    """What is `known` of a log, with what its states are asked; `history` is what marks claim."""
    filesystem, marks = known.filesystem, Marks.of(known.timeline)
    more = {
        "plan": checks.plan(filesystem, None),
        "system": replace(
            known.system, parameters=checks.parameters(filesystem), versions=checks.versions
        ),
        "known_promises": promises_of(checks, filesystem, marks, history),
        "names_of_acks": () if checks.program else marks.names,
    }
    told = {field.name: getattr(known, field.name) for field in fields(known)}
    return CheckedLog(**{**told, **more}, checks=checks, marks=marks)


def promises_of(checks: LogChecks, filesystem: str, marks: Marks, history: History) -> LogPromises:
    """What a log promises to whom it is asked of."""
    if checks.program:
        known = history.facts.get("attempts") != "unknown"
        return AckPromises(_operations(history, known=known), filesystem, known)
    if checks.command:
        return MarkPromises(marks.history, filesystem, marks.names)
    return LogPromises(marks.history, filesystem)


def claims_of(recording: DiskRecording) -> History:
    """What was claimed in a recording, as marks tell it: also of a program."""
    if (known := recording.known_promises) is None:
        return recording.history
    told = known.requirements
    assert isinstance(told, OperationHistory), "programs promise operations"
    claims = (told.attempted, told.attempt_ns, told.acked, told.ack_ns)
    return History(*claims, told.attempt_ns, told.ack_ns)


def _operations(history: History, *, known: bool) -> OperationHistory:
    acked, first = np.unique(history.ack_lsn, return_index=True)
    order = np.argsort(first)
    acked, ack_ns = acked[order], history.ack_ns[first[order]]
    if not known:
        return OperationHistory(acked, np.zeros_like(ack_ns), acked, ack_ns)
    return OperationHistory(history.attempt_lsn, history.attempt_ns, acked, ack_ns)


def names_of(marks: Sequence[str], lost: Sequence[LsnRange]) -> str:
    """Marks by their numbers, for a person."""
    return ", ".join(f"{number} {marks[number - 1]!r}" for span in lost for number in span)
