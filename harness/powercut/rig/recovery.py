# SPDX-License-Identifier: Apache-2.0
"""Recovery after a live cut: the same guest boots on the surviving disk and reads the log.

Each failure is named by a row of `model.failure.Failure`.  It is held against the disk only
if the disk can be read to its end after it; and a system that does not come back, or cannot
read a part of its log, must do so twice (`must_repeat`, `agreed`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from powercut.channel.port import CommandResult, Commands
from powercut.machine.port import Machine
from powercut.model.errors import DeadlineExceeded, PowercutError
from powercut.model.failure import (
    Failure,
    GuestFault,
    failure_of_mount,
    failure_of_reader,
    failure_of_step,
)
from powercut.model.observation import Continuation, Extent, Observation, SlotState
from powercut.recover.port import NO_SUCH_SLOT, RecoveryPlan

Left = Callable[[], float]
"""The seconds that are left."""

_PROGRAM_FAULTS: Final = (GuestFault.START, GuestFault.SIGNAL)


class _StepFailed(Exception):
    """A step failed that asks nothing of what is on the disk."""

    def __init__(self, what: str, result: CommandResult) -> None:
        super().__init__(f"{what}: {result.error or f'status {result.status}'}")
        self.cause = failure_of_step(_first_fault(result))


def recover_in_guest(
    machine: Machine, channel: Commands, plan: RecoveryPlan, *, timeout_s: float
) -> tuple[Observation, dict[str, str]]:
    """Boots, mounts what is to be mounted, reads the log; also returns guest facts.

    Mounting replays the journal of the file system.  MOUNT_REFUSED presumes that this kernel
    has mounted the plan's file system with the plan's options before; a caller that does not
    know that has to find out.
    """
    end = time.monotonic() + timeout_s

    def left() -> float:
        return max(end - time.monotonic(), 0.001)

    try:
        machine.start(timeout_s=left())
        channel.wait_hello(timeout_s=left())
        device = f"/dev/{plan.device}"
        _require(channel.run("flushbufs", device, timeout_s=left()), f"flushbufs {device}")
        facts = channel.run("facts", plan.device, timeout_s=left()).facts
        refused = _mount(channel, plan, left) if plan.filesystem else None
        seen = refused or _read(channel, plan, left)
        if plan.after and seen.recovered and seen.complete:
            seen = replace(seen, later=_go_on(channel, plan, seen, left))
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


def _require(result: CommandResult, what: str) -> None:
    if _failed(result):
        raise _StepFailed(what, result)


def _failed(result: CommandResult) -> bool:
    return bool(result.status or result.error)


def _first_fault(result: CommandResult) -> GuestFault:
    return result.errors[0].fault if result.errors else GuestFault.CALL


def _disk_reads(channel: Commands, plan: RecoveryPlan, left: Left) -> bool:
    return not _failed(channel.run("probe", plan.device, timeout_s=left()))


def _mount(channel: Commands, plan: RecoveryPlan, left: Left) -> Observation | None:
    """None if the file system mounts."""
    where = (f"/dev/{plan.device}", plan.mount_point, plan.mount_options)
    done = channel.run("mount", plan.filesystem, *where, timeout_s=left())
    if not _failed(done):
        return None
    refused = [e.error for e in done.errors if e.fault is GuestFault.MOUNT]
    if not refused:
        raise _StepFailed("mount", done)
    cause = failure_of_mount(refused[0], proved=True)
    if cause.is_finding and not _disk_reads(channel, plan, left):
        cause = Failure.DISK_FAILED
    return Observation.failed(
        cause, f"the {plan.filesystem} file system does not mount: {done.error}"
    )


def _read(channel: Commands, plan: RecoveryPlan, left: Left) -> Observation:
    """What the log reader finds."""
    done = channel.run("exec", *plan.reader, timeout_s=left())
    whole = tuple(e for e in done.extents if e.state is not SlotState.UNREADABLE)
    cause = _reader_failure(done) if _failed(done) else None
    words = f"the log reader failed: {done.error or f'status {done.status}'}" if cause else ""
    suspect = len(whole) < len(done.extents) or (cause is not None and cause.is_finding)
    if suspect and not _disk_reads(channel, plan, left):
        words = words or "a part of the log could not be read"
        return Observation.failed(Failure.DISK_FAILED, f"{words}; nor could the disk", whole)
    if cause is not None:
        return Observation.failed(cause, words, done.extents)
    return Observation(done.extents)


def _reader_failure(done: CommandResult) -> Failure:
    for fault in _PROGRAM_FAULTS:
        if any(e.fault is fault for e in done.errors):
            return failure_of_reader(fault, 0)
    return failure_of_reader(GuestFault.CALL, done.errors[0].error if done.errors else 0)


def last_intact(extents: tuple[Extent, ...]) -> int:
    """The highest LSN that came back whole; 0 if none did."""
    whole = [e.lsn + e.count - 1 for e in extents if e.state is SlotState.INTACT]
    return max(whole, default=0)


def _go_on(channel: Commands, plan: RecoveryPlan, before: Observation, left: Left) -> Continuation:
    """The workload goes on; then a clean unmount, another mount, and the reader once more.

    On the device itself nothing is mounted; its cache is dropped instead.
    """
    first = last_intact(before.extents) + 1
    wrote = channel.run("exec", *plan.after, f"first_lsn={first}", timeout_s=left())
    failure = wrote.error or (f"status {wrote.status}" if wrote.status else "")
    claims = (first, first + plan.after_records - 1, channel.acked)
    no_room = wrote.status == NO_SUCH_SLOT
    if plan.filesystem:
        _require(channel.run("umount", plan.mount_point, timeout_s=left()), "umount")
        refused = _mount(channel, plan, left)
    else:
        device = f"/dev/{plan.device}"
        _require(channel.run("flushbufs", device, timeout_s=left()), f"flushbufs {device}")
        refused = None
    seen = refused or _read(channel, plan, left)
    if seen.failure:
        words = f"after the workload had gone on: {seen.failure}"
        seen = replace(seen, failure=words)
    return Continuation(*claims, seen, failure, no_room)
