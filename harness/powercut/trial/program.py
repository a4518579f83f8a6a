# SPDX-License-Identifier: Apache-2.0
"""Records a program: set up, power on, run, cut, seal.  Judges nothing.

The program's folder is made by `setup` on a disk without a volatile cache, and is durable
when the power comes on.  The cut takes the disk first, while requests are on their way, then the
guest.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from powercut import __version__
from powercut.disk.base import BaseImageSpec, ensure_base_image
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.model.binding import Binding
from powercut.model.contract import CutPolicy, DeviceContract
from powercut.model.errors import HostError, PowercutError, UsageError
from powercut.model.operations import Packet
from powercut.rig.program import Program
from powercut.rig.program_guest import LineReceiver, ProgramGuest
from powercut.rig.scratch import scratch
from powercut.store.binding import new_recording
from powercut.store.program import ProgramDir, ProgramRecord

_BOOT_S: Final = 90.0
_CUT_S: Final = 30.0
_POLL_S: Final = 0.02


@dataclass(frozen=True)
class ProgramJob:
    """What is to be recorded.

    The power is cut after `acks` acknowledged operations or `seconds`, whichever comes first, and
    `setup` may take `deadline_s`.  `size` is that of the disk in bytes.
    """

    program: Program
    filesystem: str
    size: int
    contract: DeviceContract
    seed: int
    run_id: bytes
    acks: int
    seconds: float
    deadline_s: float
    mount_options: str = ""
    mkfs_options: tuple[str, ...] = ()

    def lying(self) -> ProgramJob:
        """The same on a disk that ignores flushes and FUA."""
        return replace(self, contract=self.contract.lying())


def prepare(job: ProgramJob, base: Path, cache: Path) -> None:
    """Leaves the disk after `setup` in `base`.

    Raises UsageError if the program's own `setup` fails, HostError.
    """
    image = ensure_base_image(BaseImageSpec(job.filesystem, job.size, job.mkfs_options), cache)
    plain = DeviceContract(volatile_cache=False)
    with scratch() as folder:
        with CaptureDisk(CaptureConfig(image, None, plain, sockets=folder)) as disk:
            receiver = LineReceiver(folder / "lines", Binding(), _ignore)
            try:
                with _guest(job, disk, folder, receiver) as guest:
                    guest.start(timeout_s=_BOOT_S)
                    status = guest.run(job.program.argv("setup"), timeout_s=job.deadline_s)
                    if status:
                        said = guest.console_now
                        raise UsageError(
                            f"{job.program.command[0]} setup ended with status {status}: {said}",
                            hint="try it by hand: powercut check-program",
                        )
                    guest.unmount(timeout_s=_CUT_S)
            finally:
                receiver.close()
            disk.snapshot(folder / "base")
        shutil.copyfile(folder / "base", base)
    base.chmod(0o444)


def record_program(
    job: ProgramJob, base: Path, directory: ProgramDir, notify: Callable[[int], None]
) -> None:
    """Leaves a sealed recording in `directory`; `notify` hears how many acks there were so far.

    `base` is the disk after `setup`.  What goes wrong while the program runs is kept as the
    recording's trouble.  Raises HostError if the recording itself cannot be written.
    """
    record = ProgramRecord(
        powercut=__version__,
        command=job.program.command,
        folder=job.program.folder,
        filesystem=job.filesystem,
        mount_options=job.mount_options,
        size=job.size,
        contract=job.contract,
        seed=job.seed,
        run_id=job.run_id.hex(),
        control="" if job.contract.honest else "lying",
        recording=new_recording(),
        program_sha256=job.program.digest(),
    )
    if not directory.base.exists():
        shutil.copyfile(base, directory.base)
        directory.base.chmod(0o444)
    ended = _run_until_cut(job, record.binding, directory, notify)
    directory.write_console(ended.console)
    told = {"cut_ns": ended.cut_ns, "trouble": ended.trouble, "damage": ended.damage}
    directory.write_record(record.model_copy(update=told))
    directory.seal()


def _ignore(packet: Packet) -> None:
    del packet


class _Counter:
    """Counts acks as they come in, and sees whether the program has begun."""

    def __init__(self, notify: Callable[[int], None]) -> None:
        self.acks = 0
        self.ready = threading.Event()
        self._notify = notify

    def take(self, packet: Packet) -> None:
        lines = packet.data.splitlines()
        self.acks += sum(line.startswith(b"+ ") for line in lines)
        if b"ready" in lines:
            self.ready.set()
        self._notify(self.acks)


def _guest(
    job: ProgramJob, disk: CaptureDisk, folder: Path, receiver: LineReceiver
) -> ProgramGuest:
    plan = job.program.plan(job.filesystem, job.mount_options, job.seed, job.run_id)
    return ProgramGuest(disk.socket, plan, folder, receiver)


@dataclass(frozen=True)
class _Ended:
    """How a run ended; `trouble` and `damage` as in program.json."""

    cut_ns: int
    console: str
    trouble: tuple[str, ...]
    damage: tuple[str, ...]


def _run_until_cut(
    job: ProgramJob, binding: Binding, directory: ProgramDir, notify: Callable[[int], None]
) -> _Ended:
    counter = _Counter(notify)
    trouble: list[str] = []
    damage: list[str] = []
    with scratch() as folder:
        config = CaptureConfig(directory.base, directory.disk_log, job.contract, binding, folder)
        with CaptureDisk(config) as disk:
            receiver = LineReceiver(directory.lines, binding, counter.take)
            with _guest(job, disk, folder, receiver) as guest:
                try:
                    guest.start(timeout_s=_BOOT_S)
                    _run(job, guest, counter, trouble)
                except PowercutError as error:
                    trouble.append(str(error))
                cut_ns = int(disk.cut(CutPolicy.DROP, job.seed, None, timeout_s=_CUT_S).at)
                guest.kill()
            try:
                receiver.close()
            except HostError as error:
                damage.append(str(error))
    told = tuple(dict.fromkeys(trouble))
    return _Ended(cut_ns, guest.console, told, tuple(damage))


def _run(job: ProgramJob, guest: ProgramGuest, counter: _Counter, trouble: list[str]) -> None:
    """Returns when the power is to be cut."""
    argv = job.program.argv("run")
    guest.begin(argv)
    start = time.monotonic()
    began: float | None = None
    while counter.acks < job.acks:
        now = time.monotonic()
        if began is None and (counter.ready.is_set() or counter.acks):
            began = now
        if began is None and now - start > job.deadline_s:
            trouble.append(f"the program was not ready within {job.deadline_s:g} s")
            return
        if began is not None and now - began > job.seconds:
            return
        guest.trim_console()
        status = guest.wait_end(now + _POLL_S)
        if status is not None:
            if status:
                said = guest.console_now
                trouble.append(f"{' '.join(argv)} ended with status {status}: {said}")
            return
