# SPDX-License-Identifier: Apache-2.0
"""Makes one recording: prepare, set up, run, cut, read, seal.  Judges nothing.

Whatever goes wrong before the recording is complete is written into it as its
`trouble`: a recording with trouble can still convict, but never acquit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from powercut.channel.port import Channel
from powercut.machine.port import Ended, LosesPower, Machine, OwnDisk, PlugsDisk, TellsLeft
from powercut.model.contract import CutKind
from powercut.model.errors import DeadlineExceeded, HostError, PowercutError
from powercut.model.events import Phase
from powercut.model.extras import loaded
from powercut.model.failure import Failure
from powercut.model.observation import Observation
from powercut.model.verdict import EvidenceLevel
from powercut.recover.port import ImageWrite, RecoveryEngine
from powercut.rig.commands import DISKS_AT_BOOT, NO_DISKS
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.environment import withheld
from powercut.rig.image_open import changed_parts
from powercut.rig.program_files import program_files
from powercut.rig.rig import Rig
from powercut.rig.scratch import scratch
from powercut.rig.set_up import Deadline
from powercut.scenario.place import Files, place_of
from powercut.store.trial_dir import TrialDir, new_recording
from powercut.trial.disks import TrialDisk, UnseenDisk, captured, machine_of
from powercut.trial.job import GRACE_S, RecordingInProgress, Stopwatch, TrialJob
from powercut.trial.positive import look_where_nothing_was_lost, looked_again
from powercut.trial.preparation import Preparation
from powercut.trial.program_lines import ProgramLines
from powercut.trial.system import GuestSystem, KernelSystem, System
from powercut.trial.wire import WireWork
from powercut.workload.port import AcksByLines
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
# The program's folder is made by `setup` (powercut.trial.preparation), and is durable when the
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
