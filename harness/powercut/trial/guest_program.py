# SPDX-License-Identifier: Apache-2.0
"""Records a program in a virtual machine, in a root file system of its own.

As on the host's files (powercut.trial.host_files): its folder is made by `setup` on a disk without
a volatile cache, what its check finds there is evidence, too, and after the cut the medium is
recovered by its own check, twice, each time in a guest of its own.

The guest's agent stamps its lines and sends them over a virtio-serial port.  Once the disk has
stopped the agent is pinged on that port, so that what the program has said by then is heard; and
QEMU is asked something, as its answer comes after all that the guest had given it to send.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from powercut.channel.line_channel import LineChannel
from powercut.channel.port import Channel
from powercut.disk.capture import CaptureDisk
from powercut.disk.image_format import ensure_formatted_image
from powercut.disk.root_image import FILESYSTEM
from powercut.machine.port import LINES, CountsRequests, Machine
from powercut.model.binding import Binding
from powercut.model.contract import DeviceContract
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.events import Phase
from powercut.model.failure import Failure
from powercut.model.observation import Observation
from powercut.recover.plan import GuestRoot
from powercut.recover.port import ImageWrite
from powercut.rig import commands
from powercut.rig.guest_disks import GuestDisks
from powercut.rig.guest_engine import GuestEngine
from powercut.rig.image_difference import changed_parts
from powercut.rig.scratch import scratch
from powercut.rig.set_up import guest_command, mount_disks, prepare_disk
from powercut.trial.disks import TrialDisk
from powercut.trial.in_guest import GuestRecording
from powercut.trial.job import GRACE_S
from powercut.trial.positive import look_where_nothing_was_lost
from powercut.trial.trigger import wait_trigger
from powercut.workload.port import AcksByLines
from powercut.workload.program.sync_trace import TOOLS

_BOOT_S: Final = 60.0
_ASKED: Final = 2  # one turn of QEMU's loop may be under way already
_CATCH_UP_S: Final = 5.0  # a guest that answers nothing any more is cut all the same
_SHOWN: Final = 3  # lines of what a verb printed


class GuestProgramRecording(GuestRecording):
    """A recording of a workload that acknowledges by lines, in a virtual machine."""

    lines: LineChannel | None = None
    _left: Sequence[ImageWrite] = ()

    def make(self) -> None:
        """Set up, run, cut, recover."""
        try:
            super().make()
            with self.phase(Phase.RECOVER):
                self._look_where_nothing_was_lost()
        finally:
            self._hear_the_rest()

    def _look_where_nothing_was_lost(self) -> None:
        parameters, base = self.job.parameters, self.directory.base_image
        timeout_s = self.workload.recovery_s + _BOOT_S
        plan = commands.recovery_plan(parameters, self.run.run_id, self.run.seed)
        with GuestEngine(base, parameters, plan) as engine:
            engine.start(timeout_s=timeout_s)
            look_where_nothing_was_lost(
                self,
                engine,
                plan,
                lambda other: GuestEngine(base, parameters, other),
                self._left,
                timeout_s=timeout_s,
            )

    def _prepared(self) -> Path | None:
        parameters = self.job.parameters
        image = ensure_formatted_image(
            commands.base_image(parameters), commands.image_format(parameters), self.rig.cache
        )
        prepared = self.directory.path / ".base.img"
        prepared.unlink(missing_ok=True)
        with scratch() as folder:
            config = commands.capture_config(
                parameters, Binding(), base=image, log=folder / "setup", sockets=folder
            )
            config = replace(config, log=None, contract=DeviceContract(volatile_cache=False))
            with CaptureDisk(config) as disk:
                self._prepare(disk, folder)
                disk.snapshot(prepared)
        base = self.directory.adopt_base(prepared)
        prepared.unlink()
        return base

    def _prepare(self, disk: CaptureDisk, sockets: Path) -> None:
        """Runs `setup`; the machine ends in order, so that whatever it holds gets to the disk."""
        folder = sockets / "setup"
        folder.mkdir()
        spec = self.rig.machine_spec(self.job.parameters, disk.socket)
        with self.rig.backend_of(self.job.parameters).open(spec, folder) as (machine, channel):
            machine.start(timeout_s=self.deadline.remaining_s)
            channel.wait_hello(timeout_s=self.deadline.remaining_s)
            disks = self._enter_root(channel)
            lines = LineChannel.on_port(folder / LINES, sockets / "setup-lines", Binding())
            try:
                argv = self.workload.preparation(self.run)
                data = f"{self._mount_point}/{PurePosixPath(argv[-1]).name}"
                guest_command(channel, self.deadline, "mkdir", data)
                done = channel.run(*self._in_root(argv), timeout_s=self.deadline.remaining_s)
                if done.status or done.error:
                    said = " / ".join(done.texts[-_SHOWN:]) or "it printed nothing"
                    how = done.error or f"status {done.status}"
                    raise HostError(f"{' '.join(argv)} failed in the guest, {how}: {said}")
                for point in reversed(disks.points(self._mount_point)):
                    guest_command(channel, self.deadline, "umount", point)
                machine.crash(timeout_s=self.deadline.remaining_s)
            finally:
                machine.kill(timeout_s=GRACE_S)
                lines.close()

    @property
    def _mount_point(self) -> str:
        plan = commands.recovery_plan(self.job.parameters, self.run.run_id, self.run.seed)
        return plan.mount_point

    def _in_root(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        return self._root.command(*argv)

    def _writing(self, argv: tuple[str, ...], *, unsynced: bool) -> tuple[str, ...]:
        """The command that works until the cut."""
        return self._root.command_stamped(*argv, unsynced=unsynced)

    @property
    def _root(self) -> GuestRoot:
        plan = commands.recovery_plan(self.job.parameters, self.run.run_id, self.run.seed)
        assert plan.root is not None
        return plan.root

    def _enter_root(self, channel: Channel) -> GuestDisks:
        parameters = self.job.parameters
        guest_command(channel, self.deadline, *self._root.mounting(FILESYSTEM))
        disks, self.facts = prepare_disk(channel, parameters, self.deadline)
        mount_disks(channel, parameters, disks, self._mount_point, self.deadline)
        return disks

    def _set_up(self, channel: Channel, folder: Path) -> None:
        self._enter_root(channel)
        tool = commands.contents_of(self.job.parameters).tool
        if tool is not None:
            name = tool.name
            guest_command(channel, self.deadline, *self._root.showing(name, f"{TOOLS}/{name}"))
        self._press(channel, self.deadline)
        self.lines = LineChannel.on_guest(folder / LINES, self.directory.lines, self.binding)

    def _write_until_trigger(self, machine: Machine, channel: Channel, disk: TrialDisk) -> None:
        """Returns when the power is to be cut; raises if that moment does not come."""
        del machine, disk
        workload, lines = self.workload, self.lines
        assert isinstance(workload, AcksByLines)
        assert lines is not None, "the guest was not set up"
        argv = workload.writer(self.run)
        channel.start(*self._writing(argv, unsynced=workload.drops_syncs))

        def ended() -> bool:
            try:
                done = channel.wait_done(timeout_s=0)
            except DeadlineExceeded:
                return False
            if done.status or done.error:
                said = " / ".join(done.texts[-_SHOWN:]) or "it printed nothing"
                raise HostError(f"{' '.join(argv)} ended with status {done.status}: {said}")
            return True

        lines.watch = ended
        trigger = self.job.trial.trigger
        wait_trigger(lines, trigger, self.deadline, at_most_s=workload.at_most_s)

    def _last_words(self, machine: Machine) -> None:
        if not isinstance(machine, CountsRequests):
            raise HostError("this machine cannot be asked whether its guest's lines have come")
        if self.lines is not None:
            self.lines.catch_up(timeout_s=_CATCH_UP_S)
        for _ in range(_ASKED):
            machine.requests(timeout_s=self.deadline.at_least(GRACE_S))

    def _hear_the_rest(self) -> None:
        if self.lines is None:
            return
        lines, self.lines = self.lines, None
        with lines:
            self.drain(lines)

    def _recover(self, disk: TrialDisk, sockets: Path) -> Observation:
        """What the program's check finds at power-on, and on the medium, twice."""
        self._hear_the_rest()
        assert isinstance(self.workload, AcksByLines)
        plan = commands.recovery_plan(self.job.parameters, self.run.run_id, self.run.seed)
        timeout_s = self.workload.recovery_s + _BOOT_S
        medium, base = sockets / "medium.img", self.directory.base_image
        if not disk.snapshot(medium):
            raise HostError("the disk under test is not powercut's: nothing of it can be recovered")
        self._left = left = changed_parts(base, medium)
        with GuestEngine(base, self.job.parameters, plan) as engine:
            engine.start(timeout_s=timeout_s)
            self.directory.write_untouched(engine.recover([], timeout_s=timeout_s))
            seen = engine.recover(left, timeout_s=timeout_s)
            if not self.workload.same(seen, engine.recover(left, timeout_s=timeout_s)):
                words = "the same disk was recovered twice, and the check did not say the same"
                return Observation.failed(Failure.NOT_REPEATED, words)
        return seen
