# SPDX-License-Identifier: Apache-2.0
"""Records a workload that acknowledges by wire, in the small guest: writes, and what came back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.channel.port import Channel, FollowsGuest
from powercut.disk.backing import ensure_backing_image
from powercut.disk.growing_file import cut_to_size
from powercut.disk.image_format import ImageOpening, ensure_formatted_image
from powercut.machine.port import Machine, MovesGuest, RestartsGuest
from powercut.model.errors import HostError, PowercutError
from powercut.model.failure import Failure
from powercut.model.machine import IMAGE_REPAIR, BackingImage, ImageFormat, Move, Restart
from powercut.model.observation import Observation
from powercut.rig import commands
from powercut.rig.guest_engine import GuestEngine
from powercut.rig.host_reader import read_on_host
from powercut.rig.image_failure import told_of_image
from powercut.rig.image_open import changed_parts, open_after_cut, open_grown_after_cut
from powercut.rig.recovery import agreed, must_repeat, recover_in_guest
from powercut.rig.set_up import Deadline, guest_command, mount_disk, prepare_disk
from powercut.scenario.plan import Trigger, TriggerKind
from powercut.trial.disks import CapturedDisk, TrialDisk, machine_of
from powercut.trial.job import GRACE_S, RecordingInProgress
from powercut.trial.trigger import NEVER, wait_flush, wait_trigger
from powercut.workload.port import GoesOnAfter


class WireWork:
    """What the stages of a recording do for a workload that acknowledges by wire."""

    def __init__(self, run: RecordingInProgress) -> None:
        self._run = run

    def prepared(self) -> Path | None:
        """The disk at power-on, adopted by the recording; None if the machine has made it."""
        parameters = self._run.job.parameters
        cache, disk = self._run.rig.cache, commands.base_image(parameters)
        below = parameters.machine.backing_image
        if below is not BackingImage.NONE:
            log = commands.earlier_log(parameters)
            self._run.directory.adopt_backing(ensure_backing_image(disk, below, log, cache))
        image = ensure_formatted_image(disk, commands.image_format(parameters), cache)
        return self._run.directory.adopt_base(image)

    def set_up(self, machine: Machine, channel: Channel, folder: Path) -> None:
        """Brings the guest to where its workload can start."""
        del machine, folder
        channel.keep_time()
        self._mount(channel, self._run.deadline)

    def run_until_trigger(self, machine: Machine, channel: Channel, disk: TrialDisk) -> None:
        """Returns when the power is to be cut; raises if that moment does not come."""
        trigger = self._run.job.trial.trigger
        if trigger.kind is TriggerKind.FLUSHES:
            disk.stop_at_flush(trigger.value)
        channel.start("exec", *self._run.workload.writer(self._run.run))
        if trigger.kind is TriggerKind.FLUSHES:
            wait_flush(channel, disk, trigger, self._run.deadline)
        else:
            self._let_happen(machine, channel, disk)
            if trigger.kind is not TriggerKind.MOVING:
                wait_trigger(channel, trigger, self._run.deadline)

    def _let_happen(self, machine: Machine, channel: Channel, disk: TrialDisk) -> None:
        """What `machine.during` says; the last of it may be cut."""
        trigger = self._run.job.trial.trigger
        happenings = self._run.job.parameters.machine.happenings
        cut_after_s = trigger.value / 1e9 if trigger.kind is TriggerKind.MOVING else None
        for number, (how, lsn) in enumerate(happenings, 1):
            wait_trigger(channel, Trigger(TriggerKind.ACKS, lsn), self._run.deadline)
            last_s = cut_after_s if number == len(happenings) else None
            if isinstance(how, Move):
                move_guest(how, machine, channel, disk, self._run.deadline, cut_after_s=last_s)
                continue
            revival = Revival(lambda until: self._mount(channel, until), self._writer_after)
            until = self._run.deadline
            restart_guest(how, machine, channel, disk, revival, until, cut_after_s=last_s)

    def _mount(self, channel: Channel, deadline: Deadline) -> None:
        """Brings a guest that has said hello to where its workload can start."""
        disks, self._run.facts = prepare_disk(channel, self._run.job.parameters, deadline)
        mount_disk(channel, self._run.job.parameters, disks, deadline)
        seed = str(self._run.run.seed)
        self._run.press(lambda: guest_command(channel, deadline, "press", seed))

    def _writer_after(self, acked: int) -> tuple[str, ...]:
        assert isinstance(self._run.workload, GoesOnAfter), "others are refused"
        return self._run.workload.writer_after(self._run.run, acked)

    def last_words(self, machine: Machine) -> None:
        """What was not said by the cut was not said."""

    def hear_the_rest(self) -> None:
        """The channel has it."""

    def read(self, disk: TrialDisk, sockets: Path) -> None:
        self._run.directory.write_observation(self._recover(disk, sockets))

    def _recover(self, disk: TrialDisk, sockets: Path) -> Observation:
        parameters = self._run.job.parameters
        timeout_s = self._run.deadline.at_least(GRACE_S)
        image_format = parameters.machine.format
        medium = sockets / "medium.img"
        if commands.is_bare(parameters) and disk.snapshot(medium):
            return read_on_host(parameters, self._run.job.run_id, medium, timeout_s=timeout_s)
        if image_format.repaired_first:
            return self._recover_copy(disk, medium, timeout_s)
        if image_format is not ImageFormat.RAW:
            assert isinstance(disk, CapturedDisk), "others hold no format that powercut opens"
            opened = self._opened(disk, medium, timeout_s)
            facts = {"image_check": opened.check, "image_repairs": opened.repairs}
            self._run.recovery_facts = facts
            if opened.problem:
                failure = f"the {image_format.value} image does not open: {opened.problem}"
                return Observation.failed(Failure.IMAGE_REFUSED, failure)
        seen = self._boot(disk, sockets / "recovery", timeout_s)
        if must_repeat(seen):
            seen = agreed(seen, self._boot(disk, sockets / "recovery-again", timeout_s))
        return self._told_of_image(disk, seen, sockets / "after.img", timeout_s)

    def _told_of_image(
        self, disk: TrialDisk, seen: Observation, copy: Path, timeout_s: float
    ) -> Observation:
        """With the driver of an image named where that has failed a request, not the disk."""
        machine = self._run.job.parameters.machine
        raw = machine.format is ImageFormat.RAW
        if raw or seen.cause is not Failure.DISK_FAILED or not disk.snapshot(copy):
            return seen
        if machine.grows:
            cut_to_size(copy)
        return told_of_image(seen, copy, machine, timeout_s=timeout_s)

    def _recover_copy(self, disk: TrialDisk, medium: Path, timeout_s: float) -> Observation:
        """What its user may have to repair before QEMU opens it is repaired in a copy, as in each
        crash state."""
        parameters, base = self._run.job.parameters, self._run.directory.base_image
        if not disk.snapshot(medium):
            raise HostError("the disk under test is not powercut's: no image on it can be repaired")
        plan = commands.recovery_plan(parameters, self._run.job.run_id)
        with GuestEngine(base, parameters, plan) as engine:
            engine.start(timeout_s=timeout_s)
            seen = engine.recover(changed_parts(base, medium), timeout_s=timeout_s)
            if engine.repairs:
                facts = {"image_repaired_by": IMAGE_REPAIR, "image_repairs": engine.repairs}
                self._run.recovery_facts |= facts
        return seen

    def _opened(self, disk: CapturedDisk, medium: Path, timeout_s: float) -> ImageOpening:
        base, machine = self._run.directory.base_image, self._run.job.parameters.machine
        if not machine.grows:
            return open_after_cut(disk.attached, base, machine.format, timeout_s=timeout_s)
        disk.snapshot(medium)
        return open_grown_after_cut(medium, base, machine.format, timeout_s=timeout_s)

    def _boot(self, disk: TrialDisk, folder: Path, timeout_s: float) -> Observation:
        """Recovery by the guest itself, which has mounted this file system before the cut."""
        folder.mkdir()
        parameters, spec = self._run.job.parameters, machine_of(self._run, disk)
        plan = commands.recovery_plan(parameters, self._run.job.run_id)
        with self._run.rig.backend_of(parameters).open(spec, folder) as (machine, channel):
            try:
                observation, facts = recover_in_guest(
                    machine, channel, plan, timeout_s=timeout_s, folder=folder
                )
                self._run.recovery_facts |= facts
            finally:
                machine.kill(timeout_s=GRACE_S)
                self._run.directory.write_text(f"{folder.name}-console.txt", machine.diagnosis)
        return observation


# Restarts the guest of a trial, or its hypervisor, while its workload writes.
#
# 1. The guest stops where it is: whatever it had not synced is gone, and so is what it was about to
#    say.
# 2. It boots, mounts the same disk, on which its file system recovers, and is heard anew.
# 3. The workload goes on with the record after the last one that was acknowledged.  If it wrote
#    acknowledged records once more, it would hide that the restart had lost them.


@dataclass(frozen=True)
class Revival:
    """How a guest that has booted again goes on: `mount` brings it to where its workload can
    start, `writer` is the workload's command line, given the last acknowledged LSN."""

    mount: Callable[[Deadline], None]
    writer: Callable[[int], Sequence[str]]


def restart_guest(
    how: Restart,
    machine: Machine,
    channel: Channel,
    disk: TrialDisk,
    revival: Revival,
    deadline: Deadline,
    *,
    cut_after_s: float | None = None,
) -> None:
    """Returns once the guest has promised something again; with `cut_after_s`, when the restart
    began so long ago, however far it has come.

    Marks in the disk's log say when it began, and when the guest was there again.  Raises
    PowercutError if the machine cannot restart it, or if it does not come up.
    """
    if not isinstance(machine, RestartsGuest) or not isinstance(channel, FollowsGuest):
        raise HostError(
            f"this machine cannot {how.value} its guest",
            hint="leave `machine.during` out, or use machine.backend: qemu",
        )
    disk.mark(f"{how.value}: begins, {channel.acked} acknowledged")
    until = deadline if cut_after_s is None else Deadline.exactly(cut_after_s)
    try:
        channel.expect_handover(restarts=True)
        stopped_ns = machine.restart(how, timeout_s=until.remaining_s)
        channel.hand_over(stopped_ns, timeout_s=until.remaining_s)
        channel.wait_hello(timeout_s=until.remaining_s)
        machine.came_up(timeout_s=until.remaining_s)
        revival.mount(until)
        before = channel.acked
        disk.mark(f"{how.value}: over, {before} acknowledged")
        channel.start("exec", *revival.writer(before))
        if cut_after_s is None:
            promised = Trigger(TriggerKind.ACKS, before + PROMISED_THERE)
            wait_trigger(channel, promised, until)
        else:
            channel.wait_acks(NEVER, timeout_s=until.remaining_s)
    except PowercutError:
        if cut_after_s is None or not until.over:
            raise


# Moves the guest of a trial to another hypervisor while its workload writes.

PROMISED_THERE: Final = 8
"""Records that the other hypervisor acknowledges before anything else happens."""


def move_guest(
    how: Move,
    machine: Machine,
    channel: Channel,
    disk: TrialDisk,
    deadline: Deadline,
    *,
    cut_after_s: float | None = None,
) -> None:
    """Returns once the other hypervisor has promised something to the guest, too; with
    `cut_after_s`, when the move began so long ago, wherever the guest is then.

    Marks in the disk's log say when the move began, and when it was over.  Raises PowercutError if
    it cannot move, or does not arrive.
    """
    if not isinstance(machine, MovesGuest) or not isinstance(channel, FollowsGuest):
        raise HostError(
            f"this machine has no other hypervisor to {how.value} its guest to",
            hint="leave `machine.during` out, or use machine.backend: qemu",
        )
    disk.mark(f"{how.value}: begins, {channel.acked} acknowledged")
    channel.expect_handover()
    timeout_s = deadline.remaining_s if cut_after_s is None else cut_after_s
    cut_at = None if cut_after_s is None else time.monotonic() + cut_after_s
    try:
        stopped_ns = machine.move(how, timeout_s=timeout_s)
    except PowercutError:
        if cut_at is None or time.monotonic() < cut_at:
            raise
        return  # the moment has come, and taken the other hypervisor with it
    before = channel.hand_over(stopped_ns, timeout_s=deadline.remaining_s)
    disk.mark(f"{how.value}: over, {channel.acked} acknowledged")
    if cut_at is not None:
        channel.wait_acks(NEVER, timeout_s=max(cut_at - time.monotonic(), 0))
        return
    # Counted from there: meanwhile it may have gone on as far as it ever will.
    promised = Trigger(TriggerKind.ACKS, before + PROMISED_THERE)
    wait_trigger(channel, promised, deadline)
