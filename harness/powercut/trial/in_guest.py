# SPDX-License-Identifier: Apache-2.0
"""Records in a machine: boot, write, cut, recover."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

from powercut.channel.port import Channel
from powercut.disk.backing import backing_of, ensure_backing_image
from powercut.disk.growing_file import cut_to_size
from powercut.disk.image_format import ImageOpening, ensure_formatted_image
from powercut.machine.port import Ended, LosesPower, Machine, MachineSpec, OwnDisk
from powercut.model.contract import CutKind
from powercut.model.errors import HostError, PowercutError
from powercut.model.events import Phase
from powercut.model.failure import Failure
from powercut.model.machine import IMAGE_REPAIR, BackingImage, ImageFormat, Move
from powercut.model.observation import Observation
from powercut.model.verdict import EvidenceLevel
from powercut.rig import commands
from powercut.rig.guest_engine import GuestEngine
from powercut.rig.host_reader import read_on_host
from powercut.rig.image_difference import changed_parts
from powercut.rig.image_failure import told_of_image
from powercut.rig.image_open import open_after_cut, open_grown_after_cut
from powercut.rig.recovery import agreed, must_repeat, recover_in_guest
from powercut.rig.scratch import scratch
from powercut.rig.set_up import Deadline, guest_command, mount_disk, prepare_disk
from powercut.scenario.plan import Trigger, TriggerKind
from powercut.trial.disks import CapturedDisk, TrialDisk, UnseenDisk, captured
from powercut.trial.hotplug import plug_disk
from powercut.trial.job import GRACE_S, RecordingInProgress
from powercut.trial.moves import move_guest
from powercut.trial.restarts import Revival, restart_guest
from powercut.trial.trigger import wait_flush, wait_trigger
from powercut.workload.port import GoesOnAfter


class GuestRecording(RecordingInProgress):
    """A recording of a workload that acknowledges by wire, in a machine."""

    def make(self) -> None:
        """Run, cut, recover."""
        parameters = self.job.parameters
        with self.phase(Phase.PREPARE):
            self.versions = self.rig.versions(parameters)
            base = self._prepared()
        with scratch() as sockets, self._disk(base, sockets) as disk:
            self._run_until_cut(disk, sockets)
            if not self.came_up:
                raise HostError("the guest never booted; its recovery result is ignored")
            with self.phase(Phase.RECOVER):
                observation = self._recover(disk, sockets)
            self.directory.write_observation(observation)

    def _disk(self, base: Path | None, sockets: Path) -> AbstractContextManager[TrialDisk]:
        """The disk under test, of the kind that the level of the evidence says."""
        if self.level is EvidenceLevel.LIVE_ONLY:
            own = sockets / "disk"
            own.mkdir()
            return nullcontext(UnseenDisk(OwnDisk(base, own)))
        log = self.directory.disk_log
        assert base is not None, "what is recorded begins as a disk of ours"
        return captured(self.job, binding=self.binding, base=base, log=log, sockets=sockets)

    def _prepared(self) -> Path | None:
        """The disk at power-on, adopted by the recording; None if the machine has made it."""
        parameters = self.job.parameters
        cache, disk = self.rig.cache, commands.base_image(parameters)
        below = parameters.machine.backing_image
        if below is not BackingImage.NONE:
            log = commands.earlier_log(parameters)
            self.directory.adopt_backing(ensure_backing_image(disk, below, log, cache))
        image = ensure_formatted_image(disk, commands.image_format(parameters), cache)
        return self.directory.adopt_base(image)

    def _machine(self, disk: TrialDisk) -> MachineSpec:
        """The machine of the cell on its disk."""
        parameters = self.job.parameters
        below = backing_of(self.directory.base_image, parameters.machine.backing_image)
        return self.rig.machine_spec(parameters, disk.attached, backing=below)

    def _set_up(self, channel: Channel, folder: Path) -> None:
        """Brings the guest to where its workload can start; `folder` is the machine's."""
        del folder
        channel.keep_time()
        self._mount(channel, self.deadline)

    def _run_until_cut(self, disk: TrialDisk, sockets: Path) -> None:
        folder = sockets / "run"
        folder.mkdir()
        settings = self.job.parameters.machine
        # For recovery it is there at boot.
        spec = replace(self._machine(disk), hotplug=settings.hotplug)
        with self.rig.backend_of(self.job.parameters).open(
            spec, folder, history=self.directory.history, digest=self.binding.digest
        ) as (machine, channel):
            try:
                with self.phase(Phase.BOOT):
                    machine.start(timeout_s=self.deadline.remaining_s)
                    channel.wait_hello(timeout_s=self.deadline.remaining_s)
                    plugged = {}
                    if settings.hotplug:
                        device = settings.bus.device
                        plugged = plug_disk(machine, channel, disk, device, self.deadline)
                    self._set_up(channel, folder)
                    self.facts |= plugged
                    self.came_up = True
                with self.phase(Phase.WORKLOAD):
                    self._write_until_trigger(machine, channel, disk)
            except PowercutError as error:
                # What was acknowledged until now counts all the same.
                self.trouble.append(f"{error}")
            try:
                with self.phase(Phase.CUT):
                    self._cut(machine, channel, disk)
            finally:
                self.directory.write_text("console.txt", machine.diagnosis)

    def _write_until_trigger(self, machine: Machine, channel: Channel, disk: TrialDisk) -> None:
        trigger = self.job.trial.trigger
        if trigger.kind is TriggerKind.FLUSHES:
            disk.stop_at_flush(trigger.value)
        channel.start("exec", *self.workload.writer(self.run))
        if trigger.kind is TriggerKind.FLUSHES:
            wait_flush(channel, disk, trigger, self.deadline)
        else:
            self._let_happen(machine, channel, disk)
            if trigger.kind is not TriggerKind.MOVING:
                wait_trigger(channel, trigger, self.deadline)

    def _let_happen(self, machine: Machine, channel: Channel, disk: TrialDisk) -> None:
        """What `machine.during` says; the last of it may be cut."""
        trigger, happenings = self.job.trial.trigger, self.job.parameters.machine.happenings
        cut_after_s = trigger.value / 1e9 if trigger.kind is TriggerKind.MOVING else None
        for number, (how, lsn) in enumerate(happenings, 1):
            wait_trigger(channel, Trigger(TriggerKind.ACKS, lsn), self.deadline)
            last_s = cut_after_s if number == len(happenings) else None
            if isinstance(how, Move):
                move_guest(how, machine, channel, disk, self.deadline, cut_after_s=last_s)
                continue
            revival = Revival(lambda until: self._mount(channel, until), self._writer_after)
            restart_guest(how, machine, channel, disk, revival, self.deadline, cut_after_s=last_s)

    def _mount(self, channel: Channel, deadline: Deadline) -> None:
        """Brings a guest that has said hello to where its workload can start."""
        disks, self.facts = prepare_disk(channel, self.job.parameters, deadline)
        mount_disk(channel, self.job.parameters, disks, deadline)
        self._press(channel, deadline)

    def _press(self, channel: Channel, deadline: Deadline) -> None:
        """From now on the guest's kernel writes back early, unless the settings say otherwise."""
        if commands.is_pressed(self.job.parameters):
            guest_command(channel, deadline, "press", str(self.run.seed))
            self.pressed = True

    def _writer_after(self, acked: int) -> tuple[str, ...]:
        assert isinstance(self.workload, GoesOnAfter), "others are refused"
        return self.workload.writer_after(self.run, acked)

    def _cut(self, machine: Machine, channel: Channel, disk: TrialDisk) -> None:
        """Takes away what the kind of the cut says, then collects what had been said."""
        cut = self.job.parameters.cut
        timeout_s = self.deadline.at_least(GRACE_S)
        if cut.kind is CutKind.GUEST_CRASH:
            machine.crash(timeout_s=timeout_s)
        elif cut.kind is CutKind.POWER_LOSS:
            if not isinstance(machine, LosesPower):
                raise HostError(
                    "this machine cannot lose its power: only its guest or its hypervisor can end",
                    hint="cut.kind: vm-kill, or guest-crash",
                )
            disk.stop()
            self._last_words(machine)
            machine.lose_power(timeout_s=timeout_s)
        else:
            machine.kill(timeout_s=timeout_s)
        if machine.ended is Ended.BY_ITSELF and cut.kind is not CutKind.GUEST_CRASH:
            self.trouble.append(
                "the machine had shut down before the cut, and a clean shutdown flushes"
            )
        self.cut_ns = disk.cut(self.directory.recovery_log, timeout_s=timeout_s)
        channel.drain(timeout_s=timeout_s)

    def _last_words(self, machine: Machine) -> None:
        """What has to happen once the disk has stopped and before the guest is gone."""

    def _recover(self, disk: TrialDisk, sockets: Path) -> Observation:
        parameters = self.job.parameters
        timeout_s = self.deadline.at_least(GRACE_S)
        image_format = parameters.machine.format
        medium = sockets / "medium.img"
        if commands.is_bare(parameters) and disk.snapshot(medium):
            return read_on_host(parameters, self.job.run_id, medium, timeout_s=timeout_s)
        if image_format.repaired_first:
            return self._recover_copy(disk, medium, timeout_s)
        if image_format is not ImageFormat.RAW:
            assert isinstance(disk, CapturedDisk), "others hold no format that powercut opens"
            opened = self._opened(disk, medium, timeout_s)
            self.recovery_facts = {"image_check": opened.check, "image_repairs": opened.repairs}
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
        machine = self.job.parameters.machine
        raw = machine.format is ImageFormat.RAW
        if raw or seen.cause is not Failure.DISK_FAILED or not disk.snapshot(copy):
            return seen
        if machine.grows:
            cut_to_size(copy)
        return told_of_image(seen, copy, machine, timeout_s=timeout_s)

    def _recover_copy(self, disk: TrialDisk, medium: Path, timeout_s: float) -> Observation:
        """What its user may have to repair before QEMU opens it is repaired in a copy, as in each
        crash state."""
        parameters, base = self.job.parameters, self.directory.base_image
        if not disk.snapshot(medium):
            raise HostError("the disk under test is not powercut's: no image on it can be repaired")
        plan = commands.recovery_plan(parameters, self.job.run_id)
        with GuestEngine(base, parameters, plan) as engine:
            engine.start(timeout_s=timeout_s)
            seen = engine.recover(changed_parts(base, medium), timeout_s=timeout_s)
            if engine.repairs:
                facts = {"image_repaired_by": IMAGE_REPAIR, "image_repairs": engine.repairs}
                self.recovery_facts |= facts
        return seen

    def _opened(self, disk: CapturedDisk, medium: Path, timeout_s: float) -> ImageOpening:
        base, machine = self.directory.base_image, self.job.parameters.machine
        if not machine.grows:
            return open_after_cut(disk.attached, base, machine.format, timeout_s=timeout_s)
        disk.snapshot(medium)
        return open_grown_after_cut(medium, base, machine.format, timeout_s=timeout_s)

    def _boot(self, disk: TrialDisk, folder: Path, timeout_s: float) -> Observation:
        """Recovery by the guest itself, which has mounted this file system before the cut."""
        folder.mkdir()
        spec = self._machine(disk)
        plan = commands.recovery_plan(self.job.parameters, self.job.run_id)
        with self.rig.backend_of(self.job.parameters).open(spec, folder) as (machine, channel):
            try:
                observation, facts = recover_in_guest(
                    machine, channel, plan, timeout_s=timeout_s, folder=folder
                )
                self.recovery_facts |= facts
            finally:
                machine.kill(timeout_s=GRACE_S)
                self.directory.write_text(f"{folder.name}-console.txt", machine.diagnosis)
        return observation
