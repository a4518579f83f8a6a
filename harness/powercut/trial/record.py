# SPDX-License-Identifier: Apache-2.0
"""Makes one recording: prepare, set up, run, cut, read, seal.  Judges nothing.

Whatever goes wrong before the recording is complete is written into it as its
`trouble`: a recording with trouble can still convict, but never acquit.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from socket import SOCK_SEQPACKET, socketpair
from typing import Final, Protocol

from powercut.channel.line_channel import LineChannel
from powercut.channel.lines import unpack
from powercut.channel.port import Channel
from powercut.crash.states import Requirements, StateSpace
from powercut.disk.base import BaseImageSpec, dig_holes, ensure_base_image
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.disk.image_format import ensure_formatted_image
from powercut.disk.pclog import read_timeline
from powercut.machine.port import Ended, LosesPower, Machine, OwnDisk, PlugsDisk, TellsLeft
from powercut.model.binding import Binding
from powercut.model.contract import CutKind, CutPolicy, DeviceContract, Honour
from powercut.model.creation import Creation, creation_at_ack, creation_of
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError
from powercut.model.events import Phase
from powercut.model.extras import loaded
from powercut.model.failure import Failure
from powercut.model.observation import Observation
from powercut.model.reads import FileRead
from powercut.model.timeline import Timeline
from powercut.model.verdict import EvidenceLevel
from powercut.recording.state_names import plain_state
from powercut.recover.port import DatesReads, ImageWrite, RecoveryEngine
from powercut.recover.state_image import image_write
from powercut.rig import commands
from powercut.rig.commands import DISKS_AT_BOOT, NO_DISKS
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.environment import withheld
from powercut.rig.host_files import kernel_of, uml_release
from powercut.rig.image_open import changed_parts
from powercut.rig.program_files import program_files
from powercut.rig.program_guest import ProgramGuest
from powercut.rig.rig import Rig
from powercut.rig.scratch import scratch
from powercut.rig.set_up import Deadline
from powercut.scenario.place import Files, place_of
from powercut.scenario.settings import FilesystemType, Parameters
from powercut.store.trial_dir import TrialDir, new_recording
from powercut.trial.disks import TrialDisk, UnseenDisk, captured, machine_of
from powercut.trial.job import GRACE_S, RecordingInProgress, Stopwatch, TrialJob
from powercut.trial.positive import look_where_nothing_was_lost, looked_again
from powercut.trial.program_lines import SHOWN, ProgramLines, watching
from powercut.trial.system import GuestSystem, KernelSystem, System
from powercut.trial.wire import WireWork
from powercut.workload.port import AcksByLines, Promises
from powercut.workload.program.claims import sighting_of


def record_trial(
    rig: Rig,
    job: TrialJob,
    directory: TrialDir,
    notify: Callable[[Phase], None],
    shelf: EngineShelf,
) -> None:
    """Leaves a sealed recording in `directory`; what recovers its disk comes from the `shelf`.

    Raises HostError only if the recording itself cannot be written.
    """
    watch = Stopwatch(notify)
    record = job.as_record(new_recording())
    directory.write_record(record.model_copy(update={"trouble": "the trial did not end"}))
    run = RecordingInProgress(rig, job, directory, watch, shelf)
    try:
        Recorder(run, _work_of(run)).record()
    except PowercutError as error:
        run.trouble.append(f"{error}" + (f" ({error.hint})" if error.hint else ""))
    directory.write_record(
        record.model_copy(
            update={
                "trouble": "; ".join(dict.fromkeys(run.trouble)),
                "damage": tuple(run.damage),
                "cut_ns": run.cut_ns,
                "versions": run.versions,
                "program_files": program_files(job.parameters) if run.versions else {},
                "guest_facts": run.facts,
                "recovery_facts": run.recovery_facts,
                "timings_s": watch.seconds,
                "pressed": run.pressed,
                "reads": run.reads,
                "outside": run.outside,
                "creation": run.creation,
                "withheld": withheld(job.parameters),
            }
        )
    )
    directory.seal_recording()


class Work(Protocol):
    """What the stages of a recording do for what is recorded."""

    def prepared(self) -> Path | None:
        """The disk at power-on, adopted by the recording; None if the machine has it."""

    def set_up(self, machine: Machine, channel: Channel, folder: Path) -> None:
        """Brings a machine that has said hello to where the workload can start; `folder` is the
        machine's."""

    def run_until_trigger(self, machine: Machine, channel: Channel, disk: TrialDisk) -> None:
        """Returns when the power is to be cut; raises if that moment does not come."""

    def last_words(self, machine: Machine) -> None:
        """What has to happen once the disk has stopped and before the machine is gone."""

    def hear_the_rest(self) -> None:
        """After the cut: what was still on its way; idempotent."""

    def read(self, disk: TrialDisk, sockets: Path) -> None:
        """Leaves what came back beside the recording."""


def _work_of(run: RecordingInProgress) -> Work:
    place = place_of(run.job.parameters)
    match place.files:
        case Files.HOST | Files.UNPACKED:
            return ProgramWork(run, KernelSystem(run))
        case Files.IMAGE:
            return ProgramWork(run, GuestSystem(run))
        case Files.MACHINE:
            made: Work = loaded(place.row.own_system)(run)
            return made
        case Files.GUEST:
            return WireWork(run)


class Recorder:
    """The stages of every recording: prepare, set up, run, cut, read."""

    def __init__(self, run: RecordingInProgress, work: Work) -> None:
        self._run = run
        self._work = work

    def record(self) -> None:
        """Raises PowercutError for what keeps it from being whole."""
        run = self._run
        try:
            with run.phase(Phase.PREPARE):
                run.versions = run.rig.versions(run.job.parameters)
                base = self._work.prepared()
            with scratch() as sockets, self._disk(base, sockets) as disk:
                self._run_until_cut(disk, sockets)
                if not run.came_up:
                    raise HostError("the guest never booted; its recovery result is ignored")
                with run.phase(Phase.RECOVER):
                    self._work.read(disk, sockets)
        finally:
            self._work.hear_the_rest()

    def _disk(self, base: Path | None, sockets: Path) -> AbstractContextManager[TrialDisk]:
        """The disk under test, of the kind that the level of the evidence says."""
        run = self._run
        if run.level is EvidenceLevel.LIVE_ONLY:
            own = sockets / "disk"
            own.mkdir()
            return nullcontext(UnseenDisk(OwnDisk(base, own)))
        log = run.directory.disk_log
        assert base is not None, "what is recorded begins as a disk of ours"
        return captured(run.job, binding=run.binding, base=base, log=log, sockets=sockets)

    def _run_until_cut(self, disk: TrialDisk, sockets: Path) -> None:
        run = self._run
        folder = sockets / "run"
        folder.mkdir()
        settings = run.job.parameters.machine
        # For recovery it is there at boot.
        spec = replace(machine_of(run, disk), hotplug=settings.hotplug)
        with run.rig.backend_of(run.job.parameters).open(
            spec, folder, history=run.directory.history, digest=run.binding.digest
        ) as (machine, channel):
            try:
                with run.phase(Phase.BOOT):
                    machine.start(timeout_s=run.deadline.remaining_s)
                    channel.wait_hello(timeout_s=run.deadline.remaining_s)
                    plugged = {}
                    if settings.hotplug:
                        device = settings.bus.device
                        plugged = plug_disk(machine, channel, disk, device, run.deadline)
                    self._work.set_up(machine, channel, folder)
                    run.facts |= plugged
                    run.came_up = True
                with run.phase(Phase.WORKLOAD):
                    self._work.run_until_trigger(machine, channel, disk)
            except PowercutError as error:
                # What was acknowledged until now counts all the same.
                run.trouble.append(f"{error}")
            try:
                with run.phase(Phase.CUT):
                    self._cut(machine, channel, disk)
            finally:
                run.directory.write_text("console.txt", machine.diagnosis)

    def _cut(self, machine: Machine, channel: Channel, disk: TrialDisk) -> None:
        """Takes away what the kind of the cut says, then collects what had been said."""
        run = self._run
        if not run.came_up and place_of(run.job.parameters).files is Files.MACHINE:
            return  # what is somebody else's keeps its power if nothing came of it
        cut = run.job.parameters.cut
        timeout_s = run.deadline.at_least(GRACE_S)
        if cut.kind is CutKind.GUEST_CRASH:
            machine.crash(timeout_s=timeout_s)
        elif cut.kind is CutKind.POWER_LOSS:
            if not isinstance(machine, LosesPower):
                raise HostError(
                    "this machine cannot lose its power: only its guest or its hypervisor can end",
                    hint="cut.kind: vm-kill, or guest-crash",
                )
            disk.stop()
            self._work.last_words(machine)
            machine.lose_power(timeout_s=timeout_s)
        else:
            machine.kill(timeout_s=timeout_s)
        if machine.ended is Ended.BY_ITSELF and cut.kind is not CutKind.GUEST_CRASH:
            run.trouble.append(
                "the machine had shut down before the cut, and a clean shutdown flushes"
            )
        run.cut_ns = disk.cut(run.directory.recovery_log, timeout_s=timeout_s)
        channel.drain(timeout_s=timeout_s)


# Plugs the disk under test into a guest that runs without it.

_POLL_S: Final = 0.05


def plug_disk(
    machine: Machine, channel: Channel, disk: TrialDisk, device: str, deadline: Deadline
) -> dict[str, str]:
    """Returns once the guest has `device`, with the disks that it had before, as a fact.

    Marks in the disk's log say when it was plugged in, and when the guest had it.  Raises HostError
    or DeadlineExceeded.
    """
    if not isinstance(machine, PlugsDisk):
        raise HostError(
            "this machine has all its disks when it boots",
            hint="leave `machine.hotplug` out, or use machine.backend: qemu",
        )
    before = _disks(channel, deadline)
    disk.mark("hotplug: begins")
    machine.plug_disk(timeout_s=deadline.remaining_s)
    try:
        while device not in _disks(channel, deadline):
            time.sleep(_POLL_S)
    except DeadlineExceeded as error:
        raise DeadlineExceeded(
            f"the disk was plugged in, and the guest did not find {device}: {error}",
            hint="of a PCI function a kernel hears with CONFIG_HOTPLUG_PCI_ACPI",
        ) from None
    disk.mark(f"hotplug: the guest has {device}")
    return {DISKS_AT_BOOT: ",".join(before) or NO_DISKS}


def _disks(channel: Channel, deadline: Deadline) -> list[str]:
    said = channel.wait_hello(timeout_s=deadline.remaining_s).get("disks", "")
    return [name for name in said.split(",") if name]


# Records a program on a machine that powercut makes: set up, run, and read after the cut.
#
# The program's folder is made by `setup` (powercut.trial.record), and is durable when the
# power comes on.  What its check finds there is evidence, too: a check that finds operations where
# none was tried cannot be believed.
#
# After the cut the medium is recovered by the program's own check, twice, and `ASKED` times if it
# misses something: what it does not say again is not known.

_Keep = Callable[[Observation], None]


class ProgramWork:
    """What the stages of a recording do for a program on a `system`."""

    def __init__(self, run: RecordingInProgress, system: System) -> None:
        self._run = run
        self._system = system
        self._lines = ProgramLines(run)
        self._preparation = Preparation(run, system)

    def prepared(self) -> Path | None:
        """The disk as `setup` has left it, adopted by the recording."""
        return self._preparation.made()

    def set_up(self, machine: Machine, channel: Channel, folder: Path) -> None:
        """Brings the machine to where the program can start."""
        run = self._run
        self._system.enter(channel)
        self._system.make_ready(channel)
        self._lines.hear(
            self._system.hear(machine, folder, run.directory.lines, run.binding, dated=True)
        )

    def run_until_trigger(self, machine: Machine, channel: Channel, disk: TrialDisk) -> None:
        """Returns when the power is to be cut; raises if that moment does not come."""
        del machine
        workload = self._run.workload
        assert isinstance(workload, AcksByLines)
        argv = workload.writer(self._run.run)
        self._system.start(channel, argv, unsynced=workload.drops_syncs, dated=True)
        self._lines.wait_trigger(channel, argv, disk)

    def last_words(self, machine: Machine) -> None:
        """All that the program said until the disk stopped is heard."""
        self._lines.catch_up()
        self._system.last_words(machine)
        self._run.pressed = self._system.pressed(self._lines)
        if self._run.job.control is None and isinstance(machine, TellsLeft):
            self._run.left = machine.left(timeout_s=self._run.deadline.at_least(GRACE_S))

    def hear_the_rest(self) -> None:
        self._lines.hear_the_rest()

    def read(self, disk: TrialDisk, sockets: Path) -> None:
        """What the program's check finds at power-on, on the medium, twice, and where nothing was
        lost if that leaves a doubt."""
        self.hear_the_rest()
        run, workload, system = self._run, self._run.workload, self._system
        assert isinstance(workload, AcksByLines)
        timeout_s = workload.recovery_s + system.boot_s
        medium, base = sockets / "medium.img", run.directory.base_image
        if not disk.snapshot(medium):
            raise HostError("the disk under test is not powercut's: nothing of it can be recovered")
        left = changed_parts(base, medium)
        with system.recovering(run.plan) as engine:
            keep = run.directory.write_untouched
            try:
                _answer(engine, [], keep, "the disk after `setup` alone", timeout_s)
            except DeadlineExceeded as error:
                unknown = Observation.failed(Failure.DEADLINE, f"{error}; it was not asked again")
                run.directory.write_observation(unknown)
                raise
            keep = run.directory.write_observation
            seen = _answer(engine, left, keep, "what the cut left", timeout_s)
            words = "the same disk was recovered again, and the check did not say the same"
            again = looked_again(
                run, seen, lambda _: engine.recover(left, timeout_s=timeout_s), words
            )
            if again is not seen:
                keep(again)
            look_where_nothing_was_lost(
                run, engine, run.plan, system.recovering, left, timeout_s=timeout_s
            )
            run.creation = self._preparation.creation(engine, left, timeout_s=timeout_s)


def _answer(
    engine: RecoveryEngine, writes: Sequence[ImageWrite], keep: _Keep, where: str, timeout_s: float
) -> Observation:
    """What the check says `where`, kept.  Raises DeadlineExceeded if it hung, since it would do so
    each time that it is asked; not if it found something wrong before, which it is asked twice."""
    begun = time.monotonic()
    seen = engine.recover(writes, timeout_s=timeout_s)
    keep(seen)
    found = sighting_of(seen)
    hung = not seen.complete and time.monotonic() - begun >= timeout_s
    if hung and not (found.wrong or found.bad):
        raise DeadlineExceeded(
            f"the check, of {where}: {seen.failure}", hint="raise `workload.state_timeout`"
        )
    return seen


# Makes a program's folder by its `setup`, on a disk that keeps its contract, and looks whether it
# was durable when operations were acknowledged (powercut.model.creation).
#
# A control that must be LOSSY begins with the disk of its cell, and so differs from it in less.
#
# The machine ends in order, so that whatever it holds gets to the disk.  The disk as a power cut at
# the end of `setup` would have left it is kept for the comparison, until `creation` is asked for,
# of the first ack that was made, not heard: what was durable then is taken from a log, since the
# program has gone on by the time that a busy host hears of it.

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
