# SPDX-License-Identifier: Apache-2.0
"""Recovery after a live cut: the same guest boots on the surviving disk and reads the log."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from powercut.channel.guest_channel import GuestChannel
from powercut.channel.ledger import Ledger
from powercut.channel.port import CommandResult, GuestFailed
from powercut.channel.wire import Decoder
from powercut.machine.port import Machine
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError
from powercut.model.observation import Continued, Extent, Observation, SlotState
from powercut.paths import WAL_BINARY
from powercut.recover.port import NO_SUCH_SLOT, RecoveryPlan
from powercut.rig import commands
from powercut.scenario.settings import Parameters


def recover_in_guest(
    machine: Machine, channel: GuestChannel, plan: RecoveryPlan, *, timeout_s: float
) -> tuple[Observation, dict[str, str]]:
    """Boots, mounts what is to be mounted, reads the log; also returns guest facts.

    Mounting replays the journal of the file system.

    A file system that refuses to mount is an observation: the system did not recover.
    A guest that dies or hangs, or does not find its disk, is one, too, but an incomplete one: it
    may have been the host's fault.
    """
    end = time.monotonic() + timeout_s

    def left() -> float:
        return max(end - time.monotonic(), 0.001)

    try:
        machine.start(timeout_s=left())
        channel.wait_hello(timeout_s=left())
        device = f"/dev/{plan.device}"
        _ended_well(channel.run("flushbufs", device, timeout_s=left()), f"flushbufs {device}")
        facts = channel.run("facts", plan.device, timeout_s=left()).facts
        if plan.filesystem:
            mount = ("mount", plan.filesystem, device, plan.mount_point, plan.mount_options)
            mounted = channel.run(*mount, timeout_s=left())
            if mounted.status or mounted.error:
                if not mounted.error.startswith(f"mount {plan.filesystem} "):
                    _ended_well(mounted, "mount")  # it was not mount(2) that refused
                failure = f"the {plan.filesystem} file system does not mount: {mounted.error}"
                return Observation((), recovered=False, failure=failure), facts
        read = channel.run("exec", *plan.reader, timeout_s=left())
        if read.status or read.error:
            failure = f"the log reader failed: {read.error or f'status {read.status}'}"
            return Observation(read.extents, complete=False, failure=failure), facts
        later = None
        if plan.after and plan.filesystem:
            later = _go_on(channel, plan, read.extents, left)
        return Observation(read.extents, later=later), facts
    except (GuestFailed, DeadlineExceeded, HostError) as error:
        return Observation((), complete=False, failure=f"recovery did not finish: {error}"), {}


def _ended_well(result: CommandResult, what: str) -> None:
    """Raises GuestFailed if a command failed that asks nothing of what is on the disk."""
    if result.status or result.error:
        raise GuestFailed(f"{what}: {result.error or f'status {result.status}'}")


def _go_on(
    channel: GuestChannel,
    plan: RecoveryPlan,
    extents: Sequence[Extent],
    left: Callable[[], float],
) -> Continued:
    """The workload goes on; then a clean unmount, another mount, and the reader once more."""
    whole = [e.lsn + e.count - 1 for e in extents if e.state is SlotState.INTACT]
    first = max(whole, default=0) + 1
    wrote = channel.run("exec", *plan.after, f"first_lsn={first}", timeout_s=left())
    failure = wrote.error or (f"status {wrote.status}" if wrote.status else "")
    count = next(int(word[8:]) for word in plan.after if word.startswith("records="))
    claims = (first, first + count - 1, channel.acked)
    no_room = wrote.status == NO_SUCH_SLOT
    for command in (
        ("umount", plan.mount_point),
        ("mount", plan.filesystem, f"/dev/{plan.device}", plan.mount_point, plan.mount_options),
    ):
        done = channel.run(*command, timeout_s=left())
        if done.status or done.error:
            seen = Observation(
                (),
                recovered=command[0] != "mount",
                complete=command[0] == "mount",
                failure=f"{command[0]} after the workload had gone on: {done.error}",
            )
            return Continued(*claims, seen, failure, no_room)
    read = channel.run("exec", *plan.reader, timeout_s=left())
    bad = read.error or (f"status {read.status}" if read.status else "")
    seen = Observation(read.extents, complete=not bad, failure=bad)
    return Continued(*claims, seen, failure, no_room)


def read_on_host(
    parameters: Parameters, run_id: bytes, medium: Path, *, timeout_s: float
) -> Observation:
    """Reads a raw log from an image of the surviving medium, without a guest."""
    arguments = commands.layout_arguments(parameters, run_id, str(medium))
    return read_log([str(WAL_BINARY), "read", *arguments, "channel=fd:1"], timeout_s=timeout_s)


def read_log(argv: list[str], *, timeout_s: float) -> Observation:
    """Runs the log reader on this host and decodes what it reports.

    Raises HostError if the reader cannot be run.
    """
    try:
        done = subprocess.run(argv, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return Observation((), complete=False, failure=f"the log reader took over {timeout_s:g} s")
    except OSError as error:
        raise HostError(
            f"cannot run {argv[0]}: {error.strerror}", hint="./powercut builds it"
        ) from error
    ledger = Ledger()
    try:
        for message in Decoder().feed(done.stdout):
            ledger.apply(message, 0)
    except PowercutError as error:
        return Observation((), complete=False, failure=f"the log reader's report: {error}")
    extents = tuple(ledger.current.extents)
    if done.returncode:
        said = "; ".join(ledger.current.errors) or done.stderr.decode(errors="replace").strip()
        failure = f"the log reader failed with status {done.returncode}: {said}"
        return Observation(extents, complete=False, failure=failure)
    return Observation(extents)
