# SPDX-License-Identifier: Apache-2.0
"""Makes one recording: boot, write, cut, recover, seal.  Judges nothing.

Whatever goes wrong before the recording is complete is written into it as its
`trouble`: a recording with trouble can still convict, but never acquit.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from powercut.model.errors import PowercutError
from powercut.model.events import Phase
from powercut.rig import commands
from powercut.rig.environment import withheld
from powercut.rig.program_files import program_files
from powercut.rig.rig import Rig
from powercut.scenario.place import Files, place_of
from powercut.scenario.settings import Parameters
from powercut.store.binding import new_recording
from powercut.store.trial_dir import TrialDir
from powercut.trial.foreign import ForeignRecording
from powercut.trial.guest_program import GuestProgramRecording
from powercut.trial.host_files import HostFilesRecording
from powercut.trial.in_guest import GuestRecording
from powercut.trial.job import RecordingInProgress, Stopwatch, TrialJob


def record_trial(
    rig: Rig, job: TrialJob, directory: TrialDir, notify: Callable[[Phase], None]
) -> None:
    """Leaves a sealed recording in `directory`.

    Raises HostError only if the recording itself cannot be written.
    """
    watch = Stopwatch(notify)
    kind = _kind_of(job.parameters)
    record = job.as_record(new_recording()).model_copy(
        update={
            "evidence_level": place_of(job.parameters).evidence_level,
            "pinged": kind is GuestRecording,
        }
    )
    directory.write_record(record.model_copy(update={"trouble": "the trial did not end"}))
    run = kind(rig, job, directory, watch)
    try:
        run.make()
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
                "withheld": _withheld(job.parameters),
            }
        )
    )
    directory.seal_recording()


def _withheld(parameters: Parameters) -> tuple[str, ...]:
    if place_of(parameters).files is Files.GUEST:
        return ()  # it has programs of powercut's own
    return withheld(os.environ, commands.contents_of(parameters).environment)


def _kind_of(parameters: Parameters) -> type[RecordingInProgress]:
    match place_of(parameters).files:
        case Files.HOST | Files.UNPACKED:
            return HostFilesRecording
        case Files.MACHINE:
            return ForeignRecording
        case Files.IMAGE:
            return GuestProgramRecording
        case Files.GUEST:
            return GuestRecording
