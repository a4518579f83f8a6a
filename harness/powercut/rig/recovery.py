# SPDX-License-Identifier: Apache-2.0
"""Recovery after a live cut: the same guest boots on the surviving disk and reads the log.

Each failure is named by a row of `model.failure.Failure`.  It is held against the disk only
if the disk can be read to its end after it; and a system that does not come back, or cannot
read a part of its log, must do so twice (`must_repeat`, `agreed`).
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from powercut.channel.check_lines import CheckLines
from powercut.channel.port import CommandResult, Commands
from powercut.disk.root_image import FILESYSTEM as ROOT_FILESYSTEM
from powercut.machine.port import LINES, Machine
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError, UsageError
from powercut.model.failure import (
    Failure,
    GuestFault,
    failure_of_mount,
    failure_of_reader,
    failure_of_step,
)
from powercut.model.observation import Continuation, Extent, Observation
from powercut.model.reads import FileRead
from powercut.recover.plan import (
    CloseDevice,
    GoOn,
    GuestRoot,
    Mount,
    OpenDevice,
    OpenImage,
    Read,
    RecoveryPlan,
    Step,
    Unmount,
)
from powercut.recover.port import NO_SUCH_SLOT, reads_in
from powercut.rig.guest_disks import GuestDisks
from powercut.scenario.settings import Parameters
from powercut.wal.layout import SlotState
from powercut.workload.port import Continues, Run
from powercut.workload.table import workload_of

Left = Callable[[], float]
"""The seconds that are left."""

_SHOWN: Final = 3  # lines of what a check printed
_PROGRAM_FAULTS: Final = (GuestFault.START, GuestFault.SIGNAL)


@dataclass
class NotedReads:
    """The files of a recovered state, and which of them the check has read; without one
    (`by_check`) they are listed alone.  None: not known."""

    by_check: bool
    files: tuple[FileRead, ...] | None = None


class _StepFailed(Exception):
    """A step failed that asks nothing of what is on the disk."""

    def __init__(self, what: str, result: CommandResult) -> None:
        super().__init__(f"{what}: {result.error or f'status {result.status}'}")
        self.cause = failure_of_step(_first_fault(result))


def recover_in_guest(
    machine: Machine,
    channel: Commands,
    plan: RecoveryPlan,
    *,
    timeout_s: float,
    folder: Path,
    boot: int = 1,
    gone_on: Callable[[], None] = lambda: None,
    reads: NotedReads | None = None,
) -> tuple[Observation, dict[str, str]]:
    """Boots and takes the steps of `plan` in the guest; also returns guest facts.

    `folder` is that in which the machine was opened, and `boot` counts its boots.  `gone_on` is
    called once a writer that goes on has ended.  `reads` becomes what a program's check has read.

    An image format below the guest's disk is the machine's, and has been opened
    already.  Mounting replays the journal of the file system.  MOUNT_REFUSED presumes that this
    kernel has mounted the plan's file system with the plan's options before; a caller that does
    not know that has to find out.
    """
    end = time.monotonic() + timeout_s

    def left() -> float:
        return max(end - time.monotonic(), 0.001)

    try:
        machine.start(timeout_s=left())
        channel.wait_hello(timeout_s=left())
        with ExitStack() as stack:
            guest = _Guest(channel, plan, left, gone_on, reads)
            if plan.root is not None:
                lines = stack.enter_context(CheckLines.on_port(folder / LINES))
                guest.enter_root(lines, boot)
            guest.find_disks(plan)
            guest.forget_device()
            facts = channel.run("facts", guest.disks.devices[0], timeout_s=left()).facts
            seen = guest.recover(plan)
    except _StepFailed as failed:
        return Observation.failed(failed.cause, f"recovery did not finish: {failed}"), {}
    except PowercutError as error:
        late = isinstance(error, DeadlineExceeded)
        cause = Failure.DEADLINE if late else Failure.SYSTEM_LOST
        return Observation.failed(cause, f"recovery did not finish: {error}"), {}
    return seen, facts


def must_repeat(observation: Observation) -> bool:
    """Whether another boot has to bear `observation` out before it is held against the disk.

    Disks of guests have timeouts, after which requests fail that would have been answered.
    """
    unreadable = any(e.state is SlotState.UNREADABLE for e in observation.extents)
    return observation.complete and (not observation.recovered or unreadable)


def agreed(first: Observation, second: Observation) -> Observation:
    """What two boots on the same disk say together, if the first one `must_repeat`."""
    if not second.complete:
        return second
    if second.cause is first.cause and _unreadable(second) == _unreadable(first):
        return first
    words = [seen.failure.partition("\n")[0] or "it came back" for seen in (first, second)]
    return Observation.failed(
        Failure.NOT_REPEATED, f"first: {words[0]}; booted again on the same disk: {words[1]}"
    )


def _unreadable(observation: Observation) -> set[tuple[int, int]]:
    return {
        (slot, extent.detail)
        for extent in observation.extents
        if extent.state is SlotState.UNREADABLE
        for slot in range(extent.slot, extent.slot + extent.count)
    }


def _failed(result: CommandResult) -> bool:
    return bool(result.status or result.error)


def _first_fault(result: CommandResult) -> GuestFault:
    return result.errors[0].fault if result.errors else GuestFault.CALL


def _reader_failure(done: CommandResult) -> Failure:
    for fault in _PROGRAM_FAULTS:
        if any(e.fault is fault for e in done.errors):
            return failure_of_reader(fault, 0)
    return failure_of_reader(GuestFault.CALL, done.errors[0].error if done.errors else 0)


def last_intact(extents: tuple[Extent, ...]) -> int:
    """The highest LSN that came back whole; 0 if none did."""
    whole = [e.lsn + e.count - 1 for e in extents if e.state is SlotState.INTACT]
    return max(whole, default=0)


class _Guest:
    """A guest that is up, and takes one step after the other."""

    def __init__(
        self,
        channel: Commands,
        plan: RecoveryPlan,
        left: Left,
        gone_on: Callable[[], None],
        reads: NotedReads | None,
    ) -> None:
        self._channel = channel
        self._reads = reads
        self._mounted: Sequence[str] = ()
        self.disks = GuestDisks((plan.device,))
        self._root = plan.root
        self._left = left
        self._gone_on = gone_on
        self._lines: CheckLines | None = None

    def enter_root(self, lines: CheckLines, boot: int) -> None:
        """Programs run in the root of the plan from here on, and say their lines to `lines`."""
        self._lines = lines
        assert self._root is not None
        self._require("root", *self._root.mounting(ROOT_FILESYSTEM))
        self._require("machine", *self._root.naming(boot))

    def find_disks(self, plan: RecoveryPlan) -> None:
        """Which devices the disks are, if there are several."""
        self.disks = GuestDisks.found(plan, lambda *argv: self._require(argv[0], *argv).facts)

    def recover(self, plan: RecoveryPlan) -> Observation:
        """What comes back, and what comes of going on if the plan has that."""
        steps, go_on = plan.steps, plan.find(GoOn)
        if go_on is None:
            return self._walk(steps)
        at = steps.index(go_on)
        seen = self._walk(steps[:at])
        if seen.recovered and seen.complete:
            seen = replace(seen, later=self._go_on(go_on, steps[at + 1 :], seen))
        return seen

    def forget_device(self) -> None:
        """Nothing that was read of the devices is cached any more."""
        for device in self.disks.nodes:
            self._require(f"flushbufs {device}", "flushbufs", device)

    def _walk(self, steps: Sequence[Step]) -> Observation:
        """Up to the first `Read`, or to the mount that is refused."""
        for step in steps:
            match step:
                case OpenImage() | OpenDevice() | GoOn():
                    continue
                case CloseDevice():
                    self.forget_device()
                case Unmount():
                    for point in reversed(self.disks.points(step.point)):
                        self._require("umount", "umount", point)
                case Mount():
                    refused = self._mount(step)
                    if refused is not None:
                        return refused
                case Read():
                    return self._read(step)
        raise HostError("a recovery plan that reads nothing: a bug in powercut")

    def _run(self, *argv: str) -> CommandResult:
        return self._channel.run(*argv, timeout_s=self._left())

    def _require(self, what: str, *argv: str) -> CommandResult:
        result = self._run(*argv)
        if _failed(result):
            raise _StepFailed(what, result)
        return result

    def _disk_reads(self) -> bool:
        return not any(_failed(self._run("probe", name)) for name in self.disks.devices)

    def _mount(self, step: Mount) -> Observation | None:
        """None if the file systems mount."""
        for words in self.disks.mounting(step):
            done = self._run(*words)
            if _failed(done):
                return self._refused(step, done)
        self._mounted = self.disks.points(step.point)
        return None

    def _refused(self, step: Mount, done: CommandResult) -> Observation:
        refused = [e.error for e in done.errors if e.fault is GuestFault.MOUNT]
        if not refused:
            raise _StepFailed("mount", done)
        cause = failure_of_mount(refused[0], proved=True)
        if cause.is_finding and not self._disk_reads():
            cause = Failure.DISK_FAILED
        return Observation.failed(
            cause, f"the {step.filesystem} file system does not mount: {done.error}"
        )

    def _read(self, step: Read) -> Observation:
        if self._root is not None and self._lines is not None:
            return self._check(self._root.command(*step.command), self._lines)
        done = self._run("exec", *step.command)
        whole = tuple(e for e in done.extents if e.state is not SlotState.UNREADABLE)
        cause = _reader_failure(done) if _failed(done) else None
        words = f"the log reader failed: {done.error or f'status {done.status}'}" if cause else ""
        suspect = len(whole) < len(done.extents) or (cause is not None and cause.is_finding)
        if suspect and not self._disk_reads():
            words = words or "a part of the log could not be read"
            return Observation.failed(Failure.DISK_FAILED, f"{words}; nor could the disk", whole)
        if cause is not None:
            return Observation.failed(cause, words, done.extents)
        return Observation(done.extents)

    def _check(self, argv: tuple[str, ...], lines: CheckLines) -> Observation:
        if self._reads is not None:
            self._require("list the files", "reads", *self._mounted)
            if not self._reads.by_check:
                self._reads.files = self._listed(contents=True)
                return Observation(())
        done = self._run(*argv)
        if self._reads is not None:
            self._reads.files = self._listed(contents=False)
        said = lines.wait_end(self._left())
        failure = done.error or (f"check ended with status {done.status}" if done.status else "")
        if failure and not self._disk_reads():
            return Observation.failed(Failure.DISK_FAILED, f"{failure}; nor could the disk be read")
        printed = " / ".join(done.texts[-_SHOWN:])
        told = f"{failure}: {printed}" if failure and printed else failure
        return Observation((), complete=not failure, failure=told, lines=said)

    def _listed(self, *, contents: bool) -> tuple[FileRead, ...] | None:
        words = ("listed", str(int(contents)))
        return reads_in(self._require("list what was read", *words).listed)

    def _go_on(self, step: GoOn, rest: Sequence[Step], before: Observation) -> Continuation:
        """The workload goes on; then everything is closed and opened, and read once more."""
        if self._root is not None and self._lines is not None:
            return self._program_goes_on(step, rest, self._root, self._lines)
        first = last_intact(before.extents) + 1
        wrote = self._run("exec", *step.command, f"first_lsn={first}")
        self._gone_on()
        failure = wrote.error or (f"status {wrote.status}" if wrote.status else "")
        claims = (first, first + step.records - 1, self._channel.acked)
        no_room = wrote.status == NO_SUCH_SLOT
        seen = self._walk(rest)
        if seen.failure:
            words = f"after the workload had gone on: {seen.failure}"
            seen = replace(seen, failure=words)
        return Continuation(*claims, seen, failure, no_room)

    def _program_goes_on(
        self, step: GoOn, rest: Sequence[Step], root: GuestRoot, lines: CheckLines
    ) -> Continuation:
        """As before, with a program that begins where it will and is ended in time.

        With no records to go on by nothing goes on, and everything is read twice.
        """
        if not step.records:
            return Continuation(0, 0, 0, self._walk(rest))
        points = [before.point for before in rest if isinstance(before, Unmount)]
        wrote = self._run(*root.command_for_acks(step, points[0]))
        claims = lines.wait_end(self._left())
        self._gone_on()
        printed = " / ".join(wrote.texts[-_SHOWN:])
        failure = wrote.error or (f"status {wrote.status}: {printed}" if wrote.status else "")
        no_room = any(error.error == errno.ENOSPC for error in wrote.errors)
        seen = self._walk(rest)
        if seen.failure:
            words = f"after the program had gone on: {seen.failure}"
            seen = replace(seen, failure=words)
        return Continuation(0, 0, 0, seen, failure, no_room, claims)


# Life after recovery, as a plan: the workload goes on, and what is there is read again.


def going_on(
    plan: RecoveryPlan,
    parameters: Parameters,
    run_id: bytes,
    records: int,
    *,
    again: bool = False,
    seconds: float | None = None,
) -> RecoveryPlan:
    """`plan`, with the workload going on by `records` after recovery; 0 for not at all.

    With `again` the disk is recovered once more whatever the records, by something else than
    this plan: readers must know that, where they can be told.  `seconds` is how long it may go on,
    by default a share of what a recovery may take.
    Raises UsageError for a workload that cannot go on.
    """
    if not records and not again:
        return plan
    workload = workload_of(parameters)
    if not isinstance(workload, Continues):
        raise UsageError(
            f"a workload of kind {parameters.workload.kind} cannot go on after a recovery",
            hint="leave out --after, and `explore.after` in the scenario",
        )
    how = workload.continuation(Run(run_id), records)
    if plan.host is not None and how.environment:
        told = replace(plan.host, environment=(*plan.host.environment, *how.environment))
        plan = replace(plan, host=told)
    if plan.root is not None and how.environment:
        root = replace(plan.root, environment=(*plan.root.environment, *how.environment))
        plan = replace(plan, root=root)
    if not records:
        return plan
    return plan.going_on(how.command, records, how.seconds if seconds is None else seconds)
