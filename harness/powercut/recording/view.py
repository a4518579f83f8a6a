# SPDX-License-Identifier: Apache-2.0
"""The recording of a trial as far as it can be read, for drawing and telling.

Nothing is judged here: what cannot be read is said, and the rest is shown.
"""

from __future__ import annotations

from dataclasses import replace

from powercut.crash.dating import date_acks
from powercut.model.errors import PowercutError
from powercut.model.units import NEVER
from powercut.recording.bound import read_acks, read_disk_log, read_lines
from powercut.store.trial_dir import TrialDir, TrialRecord
from powercut.store.view import RecordingView
from powercut.workload.program.promises import ProgramPromises
from powercut.workload.program.workload import ProgramWorkload
from powercut.workload.table import workload_of


def with_claims(view: RecordingView, promises: ProgramPromises) -> RecordingView:
    """The same with what a program claimed, against what its check found."""
    difference = None
    if view.observation is not None and view.observation.recovered:
        difference = promises.difference(promises.claims_received(), view.observation)
    return replace(
        view,
        operations=promises.requirements,
        ready_ns=promises.start_ns,
        difference=difference,
    )


def view_of(trial: TrialDir) -> RecordingView:
    """Reads what there is."""
    problems: list[str] = []
    history = timeline = observation = cut_ns = promises = record = None
    try:
        record = trial.read_record()
        promises = _promises(trial, record)
        if promises is None:
            received = read_acks(trial).history
            history = replace(received, ack_ns=date_acks(received).latest_ns)
    except PowercutError as error:
        problems.append(str(error))
    try:
        record = record or trial.read_record()
        timeline = read_disk_log(trial, record, verify_payloads=False)
        cut_ns = int(timeline.cut.at) if timeline.cut is not None else None
    except PowercutError as error:
        problems.append(str(error))
    try:
        observation = trial.read_observation()
    except PowercutError as error:
        problems.append(str(error))
    if cut_ns is None and history is not None and history.cut_ns != NEVER:
        cut_ns = int(history.cut_ns)
    view = RecordingView(history, timeline, observation, cut_ns, tuple(problems))
    return view if promises is None else with_claims(view, promises)


def _promises(trial: TrialDir, record: TrialRecord) -> ProgramPromises | None:
    """What a program claimed; None for other workloads.  Raises DamagedRecording."""
    workload = workload_of(record.parameters)
    if not isinstance(workload, ProgramWorkload):
        return None
    cut_ns = int(NEVER) if record.cut_ns is None else record.cut_ns
    return workload.promises_by_lines(read_lines(trial), cut_ns)
