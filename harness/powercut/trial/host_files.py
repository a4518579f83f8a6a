# SPDX-License-Identifier: Apache-2.0
"""Records a program on this host's own files, in User-Mode Linux: set up, power on, run, cut.

The program's folder is made by its preparation on a disk without a volatile cache, and is
durable when the power comes on.  What its check finds there is evidence, too: a check that finds
operations where none was tried cannot be believed.

After the cut the medium is recovered by the program's own check, twice: what it does not say
again is not known.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path

from powercut.channel.line_channel import LineChannel
from powercut.channel.line_sources import PacketSource
from powercut.channel.stamped_source import StampedSource
from powercut.disk.base import ensure_base_image
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.model.binding import Binding
from powercut.model.contract import DeviceContract
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError
from powercut.model.events import Phase
from powercut.model.failure import Failure
from powercut.model.observation import Observation
from powercut.recover.uml.engine import UmlEngine
from powercut.rig import commands
from powercut.rig.host_files import kernel_of
from powercut.rig.image_difference import changed_parts
from powercut.rig.loop_guest import LoopGuest
from powercut.rig.program_guest import ProgramGuest
from powercut.rig.scratch import scratch
from powercut.scenario.place import LOOP, place_of
from powercut.trial.disks import CapturedDisk
from powercut.trial.job import GRACE_S, RecordingInProgress
from powercut.trial.positive import look_where_nothing_was_lost
from powercut.trial.trigger import wait_trigger
from powercut.workload.port import AcksByLines

Guest = ProgramGuest | LoopGuest


class HostFilesRecording(RecordingInProgress):
    """A recording of a workload that acknowledges by lines."""

    def make(self) -> None:
        """Set up, run, cut, recover.  Raises PowercutError for what keeps it from being whole."""
        with self.phase(Phase.PREPARE):
            self.versions = self.rig.versions(self.job.parameters)
            base = self._prepared()
        with scratch() as sockets:
            config = commands.capture_config(
                self.job.parameters,
                self.binding,
                base=base,
                log=self.directory.disk_log,
                sockets=sockets,
            )
            with CaptureDisk(config) as disk:
                self._run_until_cut(disk, sockets)
                if not self.came_up:
                    raise HostError("the system did not come up: nothing was cut")
                with self.phase(Phase.RECOVER):
                    medium = sockets / "medium.img"
                    disk.snapshot(medium)
                    self._recover(base, medium)

    def _prepared(self) -> Path:
        """The disk at power-on, adopted by the recording."""
        image = ensure_base_image(commands.base_image(self.job.parameters), self.rig.cache)
        plain = DeviceContract(volatile_cache=False)
        honest_parts = self.job.parameters.disk.parts  # without a cache none can lie
        argv = self.workload.preparation(self.run)
        prepared = self.directory.path / ".base.img"
        prepared.unlink(missing_ok=True)
        with (
            scratch() as folder,
            CaptureDisk(
                CaptureConfig(image, None, plain, sockets=folder, parts=honest_parts)
            ) as disk,
        ):
            source = self._source()
            with (
                LineChannel(source, folder / "lines", Binding()),
                self._guest(disk, folder, source.theirs) as guest,
            ):
                guest.start(timeout_s=self.deadline.remaining_s)
                self._set_up(guest, argv)
                guest.unmount(timeout_s=self.deadline.remaining_s)
            disk.snapshot(prepared)
        base = self.directory.adopt_base(prepared)
        prepared.unlink()
        return base

    def _set_up(self, guest: Guest, argv: tuple[str, ...]) -> None:
        try:
            status = guest.set_up(argv, timeout_s=self.deadline.remaining_s)
        except DeadlineExceeded as error:
            raise DeadlineExceeded(
                f"{' '.join(argv)} did not end before the deadline of the trial",
                hint="raise `deadline` in the scenario",
            ) from error
        if status:
            raise HostError(
                f"{' '.join(argv)} ended with status {status}: {guest.console_now}",
                hint="try it by hand: powercut try --dry-run",
            )

    def _guest(self, disk: CaptureDisk, folder: Path, lines: socket.socket) -> Guest:
        plan = commands.recovery_plan(self.job.parameters, self.run.run_id, self.run.seed)
        if self._on_loop:
            return LoopGuest(disk.socket, plan, folder, lines)
        return ProgramGuest(kernel_of(self.job.parameters), disk.socket, plan, folder, lines)

    @property
    def _on_loop(self) -> bool:
        return place_of(self.job.parameters).machine == LOOP

    def _source(self) -> PacketSource | StampedSource:
        return StampedSource() if self._on_loop else PacketSource()

    def _run_until_cut(self, disk: CaptureDisk, sockets: Path) -> None:
        folder = sockets / "run"
        folder.mkdir()
        source = self._source()
        with LineChannel(source, self.directory.lines, self.binding) as lines:
            guest = self._guest(disk, folder, source.theirs)
            with guest:
                try:
                    with self.phase(Phase.BOOT):
                        guest.start(timeout_s=self.deadline.remaining_s)
                        self.came_up = True
                    with self.phase(Phase.WORKLOAD):
                        self._run_until_trigger(guest, lines)
                except PowercutError as error:
                    # What was acknowledged until now counts all the same.
                    self.trouble.append(f"{error}")
                with self.phase(Phase.CUT):
                    self._cut(guest, disk)
            self.directory.write_text("console.txt", guest.console)
            self.drain(lines)

    def _run_until_trigger(self, guest: Guest, lines: LineChannel) -> None:
        """Returns when the power is to be cut; raises if that moment does not come."""
        workload = self.workload
        assert isinstance(workload, AcksByLines)
        argv = workload.writer(self.run)
        if isinstance(guest, ProgramGuest) and commands.is_pressed(self.job.parameters):
            guest.press(self.run.seed, timeout_s=self.deadline.remaining_s)
            self.pressed = True
        guest.begin(argv, unsynced=workload.drops_syncs)

        def ended() -> bool:
            guest.trim_console()
            status = guest.wait_end(time.monotonic())
            if status:
                said = guest.console_now
                raise HostError(f"{' '.join(argv)} ended with status {status}: {said}")
            return status == 0

        lines.watch = ended
        trigger = self.job.trial.trigger
        wait_trigger(lines, trigger, self.deadline, at_most_s=workload.at_most_s)

    def _cut(self, guest: Guest, disk: CaptureDisk) -> None:
        captured = CapturedDisk(disk, self.job)
        captured.stop()
        guest.kill()
        timeout_s = self.deadline.at_least(GRACE_S)
        self.cut_ns = captured.cut(self.directory.recovery_log, timeout_s=timeout_s)

    def _recover(self, base: Path, medium: Path) -> None:
        """What the program's check finds at power-on, and on the medium, twice."""
        assert isinstance(self.workload, AcksByLines)
        plan = commands.recovery_plan(self.job.parameters, self.run.run_id, self.run.seed)
        timeout_s = self.workload.recovery_s
        left = changed_parts(base, medium)
        kernel = kernel_of(self.job.parameters)
        with UmlEngine(base, plan, kernel=kernel) as engine:
            engine.start(timeout_s=self.deadline.at_least(GRACE_S))
            self.directory.write_untouched(engine.recover([], timeout_s=timeout_s))
            seen = engine.recover(left, timeout_s=timeout_s)
            if not self.workload.same(seen, engine.recover(left, timeout_s=timeout_s)):
                words = "the same disk was recovered twice, and the check did not say the same"
                seen = Observation.failed(Failure.NOT_REPEATED, words)
            self.directory.write_observation(seen)
            look_where_nothing_was_lost(
                self,
                engine,
                plan,
                lambda other: UmlEngine(base, other, kernel=kernel),
                left,
                timeout_s=timeout_s,
            )
