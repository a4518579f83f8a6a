# SPDX-License-Identifier: Apache-2.0
"""The guest engine: each state is recovered by the recorded kernel, in a guest of its own.

Slow, and the last word: what another engine finds is confirmed here.  The state is
written to a file of its own, which a new guest gets as its disk.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from powercut.closing import ResourceOwner
from powercut.disk.backing import backing_of
from powercut.disk.capture import CaptureDisk
from powercut.disk.foreign_files import refuse_foreign_files
from powercut.disk.growing_file import cut_to_size
from powercut.disk.image_format import open_image_file, repair_image_file
from powercut.disk.pclog import host_failures, read_timeline
from powercut.machine.port import FileDisk
from powercut.model.binding import Binding
from powercut.model.errors import HostError
from powercut.model.failure import Failure
from powercut.model.machine import ImageFormat
from powercut.model.observation import Observation
from powercut.model.reads import FileRead
from powercut.model.timeline import Timeline
from powercut.recover.order import EngineOrder
from powercut.recover.plan import OpenImage, RecoveryPlan
from powercut.recover.port import AFTER_MARK, ImageWrite
from powercut.rig import commands
from powercut.rig.image_failure import told_of_image
from powercut.rig.image_open import base_does_not_open, write_image
from powercut.rig.recovery import NotedReads, agreed, must_repeat, recover_in_guest
from powercut.rig.rig import Rig
from powercut.rig.scratch import scratch
from powercut.scenario.settings import MachineSettings, Parameters, Switch

_KILL_S: Final = 10.0


class GuestEngine(ResourceOwner):
    """Recovers states of `base` in guests of the recorded kernel; a `RecoveryEngine`."""

    def __init__(self, base: Path, parameters: Parameters, plan: RecoveryPlan) -> None:
        super().__init__()
        self._base = base
        self._parameters = _on_usual_machine(parameters)
        self._plan = plan
        self._rig: Rig | None = None
        self._folder = Path()
        self._mounts_base: bool | None = None
        self.boots = 0
        self.repairs = ""  # what the tool said that repaired an image, the last one that needed it

    @classmethod
    def of(cls, order: EngineOrder) -> Self:
        return cls(order.base, order.parameters, order.plan)

    @property
    def base(self) -> Path:
        return self._base

    def _open(self, stack: ExitStack) -> None:
        self._folder = stack.enter_context(scratch())
        if not _takes_direct_io(self._folder):
            machine = self._parameters.machine.model_copy(update={"direct": Switch.OFF})
            self._parameters = self._parameters.model_copy(update={"machine": machine})

    def start(self, *, timeout_s: float) -> None:
        """Finds what this host has; guests start with each state.  Raises HostError."""
        del timeout_s
        if self._rig is None:
            self._rig = Rig.find()

    def require_kernel(self, versions: Mapping[str, str]) -> None:
        """Raises HostError unless guests have here the very kernel that `versions` name."""
        if not versions.get("kernel_release"):
            raise HostError("the recording does not say which kernel its guest had")
        now = Rig.find().versions(self._parameters)
        if any(now[key] != versions.get(key, "") for key in ("kernel_release", "kernel_package")):
            words = [
                f"{v['kernel_release']} ({v.get('kernel_package', '')})" for v in (versions, now)
            ]
            raise HostError(
                f"it was recorded with Linux {words[0]}, and a guest has {words[1]} here",
                hint="`machine.kernel` chooses a kernel for new recordings",
            )

    def recover(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> Observation:
        """Recovers the base image with `writes` laid over it, in order.

        A state that does not come back is recovered twice, and a file system that refuses to
        mount is believed only if the base image mounts.  `timeout_s` is for each boot.
        Raises HostError if the image cannot be written, DamagedRecording if it is one that
        would make QEMU open other files.
        """
        seen = self._boot(writes, timeout_s=timeout_s)
        if must_repeat(seen):
            seen = agreed(seen, self._boot(writes, timeout_s=timeout_s))
        if seen.cause is Failure.MOUNT_REFUSED:
            if self._mounts_base is None:
                base = self._boot((), timeout_s=timeout_s)
                self._mounts_base = base.recovered and base.complete
            if not self._mounts_base:
                seen = Observation.failed(Failure.MOUNT_UNPROVED, seen.failure)
        return seen

    def files_read(
        self, writes: Sequence[ImageWrite], *, check: bool, timeout_s: float
    ) -> tuple[Observation, tuple[FileRead, ...] | None]:
        reads = NotedReads(check)
        seen = self._boot(writes, timeout_s=timeout_s, reads=reads)
        return seen, reads.files

    def record(
        self, writes: Sequence[ImageWrite], *, timeout_s: float
    ) -> tuple[Observation, Timeline | None]:
        """As `recover`, once, on the capture disk; also what was done to that.

        None if the guest did not come to the end of it, or an image format lies on the disk, whose
        repair before the boot is not recorded.
        """
        if self._plan.find(OpenImage) is not None:
            return self.recover(writes, timeout_s=timeout_s), None
        with self._new_folder() as folder:
            image, log = folder / "disk.img", folder / "recovery"
            write_image(self._base, writes, image)
            config = commands.capture_config(
                self._parameters, Binding(), base=image, log=log, sockets=folder
            )
            with CaptureDisk(config) as disk:
                observation = self._recover_on(
                    disk.socket, folder, timeout_s, gone_on=lambda: disk.mark(AFTER_MARK)
                )
            timeline = read_timeline(log, verify_payloads=True)
            if failed := host_failures(timeline):
                raise HostError(f"I/O error on the host, below the disk: {'; '.join(failed)}")
        cut_short = observation.cause in (Failure.DEADLINE, Failure.SYSTEM_LOST)
        return observation, None if cut_short or not timeline.complete else timeline

    def _boot(
        self, writes: Sequence[ImageWrite], *, timeout_s: float, reads: NotedReads | None = None
    ) -> Observation:
        with self._new_folder() as folder:
            image = folder / "disk.img"
            write_image(self._base, writes, image)
            if self._parameters.machine.grows:
                cut_to_size(image)
            refuse_foreign_files(image, self._parameters.machine.format)
            layer = self._plan.find(OpenImage)
            closed = self._does_not_open(image, layer.format, timeout_s) if layer else ""
            if closed:
                return Observation.failed(Failure.IMAGE_REFUSED, closed)
            seen = self._recover_on(FileDisk(image), folder, timeout_s, reads=reads)
            return told_of_image(seen, image, self._parameters.machine, timeout_s=timeout_s)

    @contextmanager
    def _new_folder(self) -> Iterator[Path]:
        if self._folder == Path():
            raise HostError("the guest engine has not been started")
        self.boots += 1
        folder = self._folder / f"{self.boots}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _recover_on(
        self,
        disk: Path | FileDisk,
        folder: Path,
        timeout_s: float,
        *,
        gone_on: Callable[[], None] = lambda: None,
        reads: NotedReads | None = None,
    ) -> Observation:
        if self._rig is None:
            raise HostError("the guest engine has not been started")
        below = backing_of(self._base, self._parameters.machine.backing_image)
        spec = self._rig.machine_spec(self._parameters, disk, backing=below)
        with self._rig.machines.open(spec, folder) as (machine, channel):
            observation, _ = recover_in_guest(
                machine,
                channel,
                self._plan,
                timeout_s=timeout_s,
                folder=folder,
                boot=self.boots,
                gone_on=gone_on,
                reads=reads,
            )
            machine.kill(timeout_s=_KILL_S)
            if observation.failure:
                failure = f"{observation.failure}\n{machine.diagnosis}".strip()
                observation = replace(observation, failure=failure)
        return observation

    def _does_not_open(self, image: Path, image_format: ImageFormat, timeout_s: float) -> str:
        """Why a format's image does not open; empty if it does, having been repaired.

        Raises HostError if it does not open that of before the run either.
        """
        opened = open_image_file(image, image_format, timeout_s=timeout_s)
        if opened.problem and image_format.repaired_first:
            self.repairs = repair_image_file(image, image_format, timeout_s=timeout_s)
            opened = open_image_file(image, image_format, timeout_s=timeout_s)
        if not opened.problem:
            return ""
        grows = self._parameters.machine.grows
        if said := base_does_not_open(self._base, image_format, grows=grows, timeout_s=timeout_s):
            raise HostError(
                f"neither the image of before the run nor that of a crash state opens: {said}"
            )
        return f"the {image_format.value} image does not open: {opened.problem}"


def _takes_direct_io(folder: Path) -> bool:
    """Whether files there can be opened past the host's page cache: on tmpfs since Linux 6.6.

    No power is cut while a state is recovered, so its image is as good in the page cache.
    """
    path = folder / "direct"
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise HostError(f"{path}: {error.strerror}") from error
        return False
    finally:
        path.unlink(missing_ok=True)
    return True


def _on_usual_machine(parameters: Parameters) -> Parameters:
    """The same on the usual backend, and with the best accelerator of this host, whatever made the
    recording: a state is an image, and what decides on it is the kernel and QEMU's format."""
    usual = {
        key: MachineSettings.model_fields[key].default
        for key in ("backend", "connect", "like", "export", "accelerator")
    }
    machine = parameters.machine.model_copy(update=usual)
    return parameters.model_copy(update={"machine": machine})
