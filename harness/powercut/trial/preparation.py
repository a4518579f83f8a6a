# SPDX-License-Identifier: Apache-2.0
"""Makes a program's folder by its `setup`, on a disk that keeps its contract, and looks whether it
was durable when operations were acknowledged (powercut.model.creation).

A control that must be LOSSY begins with the disk of its cell, and so differs from it in less.

The machine ends in order, so that whatever it holds gets to the disk.  The disk as a power cut at
the end of `setup` would have left it is kept for the comparison, until `creation` is asked for.  Of
the first ack that was made, not heard: what was durable then is taken from a log, since the program
has gone on by the time that a busy host hears of it.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from socket import SOCK_SEQPACKET, socketpair
from typing import Final

from powercut.channel.line_channel import LineChannel
from powercut.channel.lines import unpack
from powercut.channel.port import Channel
from powercut.crash.states import Requirements, StateSpace
from powercut.disk.base import BaseImageSpec, dig_holes, ensure_base_image
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.disk.image_format import ensure_formatted_image
from powercut.disk.pclog import read_timeline
from powercut.model.binding import Binding
from powercut.model.contract import CutPolicy, DeviceContract, Honour
from powercut.model.creation import Creation, creation_at_ack, creation_of
from powercut.model.errors import HostError, PowercutError
from powercut.model.reads import FileRead
from powercut.model.timeline import Timeline
from powercut.recording.state_names import plain_state
from powercut.recover.port import DatesReads, ImageWrite, RecoveryEngine
from powercut.recover.state_image import image_write
from powercut.rig import commands
from powercut.rig.host_files import kernel_of, uml_release
from powercut.rig.image_open import changed_parts
from powercut.rig.program_guest import ProgramGuest
from powercut.rig.scratch import scratch
from powercut.scenario.settings import FilesystemType, Parameters
from powercut.trial.job import GRACE_S, RecordingInProgress
from powercut.trial.program_lines import SHOWN, watching
from powercut.trial.system import System
from powercut.workload.port import AcksByLines, Promises

_COMMITS: Final = (FilesystemType.EXT4, FilesystemType.BTRFS)
_COMMIT_S: Final = 300
"""Seconds between two commits that nothing asks for: by default 5 and 30."""

_NO_ACK: Final = "where it followed `setup` at once it acknowledged nothing"
NOT_LISTED: Final = "the files there could not be listed"

_At = Callable[[Channel, LineChannel, CaptureDisk], None]
"""What is done where `setup` has ended."""


class Preparation:
    """The disk at power-on of one recording."""

    def __init__(self, run: RecordingInProgress, system: System) -> None:
        self._run = run
        self._system = system
        self._cut: Sequence[ImageWrite] | None = None

    def made(self) -> Path:
        """The disk as `setup` has left it, adopted by the recording."""
        run = self._run
        if (first := run.job.begins_with) is not None and first.base_image.is_file():
            return run.directory.share_base(first)
        prepared = run.directory.path / ".base.img"
        prepared.unlink(missing_ok=True)
        with scratch() as folder:
            cut = folder / "cut.img"
            with CaptureDisk(self._config(folder)) as disk:
                self._set_up(
                    disk,
                    folder,
                    lambda _, __, at: at.snapshot(cut),
                    said=folder / "said",
                    ends=True,
                )
                disk.cut(CutPolicy.KEEP, 0, None, timeout_s=run.deadline.remaining_s)
                disk.snapshot(prepared)
            base = run.directory.adopt_base(prepared)
            prepared.unlink()
            if run.job.control is None:
                self._cut = changed_parts(base, cut)
        return base

    def creation(
        self, engine: RecoveryEngine, later: Sequence[ImageWrite], *, timeout_s: float
    ) -> Creation | None:
        """What a power cut loses of what `setup` made; None if that is not known.

        `later` is what the recorded cut left.  Raises PowercutError.
        """
        cut, self._cut = self._cut, None
        if cut is None or not isinstance(engine, DatesReads):
            return None
        _, made = engine.files_read([], check=False, timeout_s=timeout_s)
        seen, left = engine.files_read(cut, check=False, timeout_s=timeout_s)
        if made is None or (left is None and seen.recovered):
            return None
        at_end = left or ()
        first = creation_of(made, at_end)
        if not first.lost:
            return first
        return self._second_look(engine, first, made, at_end, later, timeout_s)

    def _second_look(
        self,
        engine: RecoveryEngine,
        first: Creation,
        made: Sequence[FileRead],
        at_end: Sequence[FileRead],
        later: Sequence[ImageWrite],
        timeout_s: float,
    ) -> Creation:
        assert isinstance(engine, DatesReads)
        try:
            acked, promises, instant = self._at_first_ack()
        except PowercutError as error:  # what it does there is not what was recorded
            return replace(first, unknown=str(error))
        seen, left = engine.files_read(acked, check=False, timeout_s=timeout_s)
        _, kept = engine.files_read(later, check=False, timeout_s=timeout_s)
        if kept is None or (left is None and seen.recovered):
            return replace(first, unknown=NOT_LISTED)
        found = creation_at_ack(made, at_end, left or (), kept)
        if not found.lost:
            return found
        claims = promises.claims_at(instant)
        missed = promises.check(claims, engine.recover(acked, timeout_s=timeout_s))
        return replace(found, missed="; ".join(one.message for one in missed))

    def _at_first_ack(self) -> tuple[Sequence[ImageWrite], Promises, int]:
        """What a power cut leaves there if `run` follows `setup` at once, what it had promised,
        and the instant before which it counts.

        Raises PowercutError, also if no ack comes.
        """
        run, workload = self._run, self._run.workload
        run.deadline.renew()  # it is another run, from its boot on
        assert isinstance(workload, AcksByLines)
        argv = workload.writer(run.run)
        with scratch() as folder:
            said, config = folder / "said", self._config(folder, logged=True)

            def first_ack(channel: Channel, lines: LineChannel, disk: CaptureDisk) -> None:
                del disk
                self._system.start(channel, argv, unsynced=workload.drops_syncs, dated=True)
                lines.watch = watching(channel, argv)
                lines.wait_acks(1, timeout_s=run.deadline.remaining_s)

            with CaptureDisk(config) as disk:
                self._set_up(disk, folder, first_ack, said=said, ends=False, dated=True)
            packets = unpack(said.read_bytes(), Binding())
            promises = workload.promises_by_lines(packets, time.monotonic_ns())
            if not promises.acked:
                raise HostError(_NO_ACK)
            assert config.log is not None
            timeline = read_timeline(config.log, verify_payloads=False)
            instant, durable = durable_at_first_ack(timeline, promises.requirements)
            made = changed_parts(run.directory.base_image, config.base)
            return [*made, *durable], promises, instant

    def _config(self, folder: Path, *, logged: bool = False) -> CaptureConfig:
        run, parameters = self._run, self._run.job.parameters
        image = ensure_disk_image(parameters, run.rig.cache)
        config = commands.capture_config(
            parameters, Binding(), base=image, log=folder / "setup", sockets=folder
        )
        honest = Honour.HONOURED
        parts = tuple(part._replace(flush=honest, fua=honest) for part in config.parts)
        writes = (run.directory.path,)
        return replace(
            config,
            log=config.log if logged else None,
            contract=DeviceContract(),
            parts=parts,
            errors=(),
            writes=writes,
        )

    def _set_up(
        self,
        disk: CaptureDisk,
        sockets: Path,
        then: _At,
        *,
        said: Path,
        ends: bool,
        dated: bool = False,
    ) -> None:
        """Runs `setup`, and `then` what is to follow, with what both say in `said`; a machine that
        `ends` does so in order, and the instants of what follows count if it is `dated`."""
        run, system = self._run, self._system
        parameters = _written_back_late(run.job.parameters)
        folder = sockets / "setup"
        folder.mkdir()
        spec = run.rig.machine_spec(parameters, disk.socket, run=run.run)
        with run.rig.backend_of(parameters).open(spec, folder) as (machine, channel):
            machine.start(timeout_s=run.deadline.remaining_s)
            channel.wait_hello(timeout_s=run.deadline.remaining_s)
            system.enter(channel)
            with system.hear(machine, folder, said, Binding(), dated=dated) as lines:
                try:
                    self._run_setup(channel, lines)
                    then(channel, lines, disk)
                    if ends:
                        system.shut_down(machine, channel)
                finally:
                    machine.kill(timeout_s=GRACE_S)

    def _run_setup(self, channel: Channel, lines: LineChannel) -> None:
        run = self._run
        argv = run.workload.preparation(run.run)
        words = " ".join(argv)
        done = self._system.set_up(channel, argv, lines.require_kept)
        if done.status or done.error:
            said = " / ".join(done.texts[-SHOWN:]) or "it printed nothing"
            how = done.error or f"status {done.status}"
            raise HostError(
                f"{words} ended with {how}: {said}",
                hint="try it by hand: powercut try --dry-run",
            )


def durable_at_first_ack(
    timeline: Timeline, requirements: Requirements
) -> tuple[int, list[ImageWrite]]:
    """The instant before which the first ack was made, and what a power cut leaves there."""
    instant = int(requirements.ack_ns[0]) + 1
    space = StateSpace(timeline, requirements)
    writes = space.image_writes(plain_state(space, instant, everything=False))
    return instant, [image_write(one) for one in writes]


def _written_back_late(parameters: Parameters) -> Parameters:
    """What no sync asks for is not on the disk because a busy host took its time."""
    files = parameters.filesystem
    if files.type not in _COMMITS or any(one.startswith("commit=") for one in files.mount):
        return parameters
    late = files.model_copy(update={"mount": (*files.mount, f"commit={_COMMIT_S}")})
    return parameters.model_copy(update={"filesystem": late})


# The disk at power-on: a file system, and the layers under it.

_MADE_S: Final = 300.0
_OTHER: Final = 9
"""A host's file system is not the one that is in its image: by its UUID btrfs and XFS tell."""

_making = threading.Lock()


def ensure_disk_image(parameters: Parameters, cache: Path) -> Path:
    """What a cell's disk holds before its workload is set up, read-only, made if it is not in
    `cache` yet.  Raises HostError."""
    inside = ensure_formatted_image(
        commands.base_image(parameters), commands.image_format(parameters), cache
    )
    stack, size = parameters.disk.stack, parameters.disk.whole_size
    if stack is None:
        return inside
    below = ensure_base_image(BaseImageSpec(stack.formatted, size, number=_OTHER), cache)
    what = (inside.name, below.name, stack, size)
    words = repr((*what, uml_release(kernel_of(parameters)))).encode()
    digest = hashlib.sha256(words).hexdigest()[:12]
    image = inside.with_name(f"layers-{size >> 20}M-{digest}.img")
    with _making:  # trials at the same time want the same image
        return image if image.exists() else _make(parameters, inside, below, image)


def _make(parameters: Parameters, inside: Path, below: Path, image: Path) -> Path:
    """The layers over the disks of `below`, with `inside` copied through them."""
    plan = commands.recovery_plan(parameters, bytes(16))
    unfinished = image.with_suffix(f".{secrets.token_hex(8)}.tmp")
    try:
        with scratch() as folder:
            config = commands.capture_config(
                parameters, Binding(), base=below, log=folder / "log", sockets=folder
            )
            config = replace(
                config,
                log=None,
                contract=DeviceContract(volatile_cache=False),
                writes=(image.parent,),
            )
            ours, theirs = socketpair(type=SOCK_SEQPACKET)
            with ours, CaptureDisk(config) as disk:
                guest = ProgramGuest(
                    kernel_of(parameters), disk.socket, plan, folder, theirs, image=inside
                )
                with guest:
                    guest.start(timeout_s=_MADE_S)
                    guest.unmount(timeout_s=_MADE_S)
                disk.snapshot(unfinished)
        dig_holes(unfinished)
        unfinished.chmod(0o444)
        unfinished.rename(image)
    finally:
        unfinished.unlink(missing_ok=True)
    return image
