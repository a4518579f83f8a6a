# SPDX-License-Identifier: Apache-2.0
"""The recording of a trial as far as it can be read, for drawing and telling.

Nothing is judged here: what cannot be read is said, and the rest is shown.
"""

from __future__ import annotations

from dataclasses import replace

from powercut.crash.dating import date_acks
from powercut.model.errors import PowercutError
from powercut.model.units import NEVER
from powercut.recording.sealed import SealedTrial
from powercut.store.trial_dir import TrialDir
from powercut.store.view import RecordingView
from powercut.workload.port import AcksByLines
from powercut.workload.program.promises import ProgramPromises


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
    history = timeline = observation = cut_ns = promises = None
    sealed = SealedTrial(trial, verify_payloads=False)
    try:
        if isinstance(sealed.workload, AcksByLines):
            promises = sealed.promises
        else:
            received = sealed.acks.history
            history = replace(received, ack_ns=date_acks(received).latest_ns)
    except PowercutError as error:
        problems.append(str(error))
    try:
        timeline = sealed.disk_log
        cut_ns = int(timeline.cut.at) if timeline.cut is not None else None
    except PowercutError as error:
        problems.append(str(error))
    try:
        observation = sealed.observation
    except PowercutError as error:
        problems.append(str(error))
    if cut_ns is None and history is not None and history.cut_ns != NEVER:
        cut_ns = int(history.cut_ns)
    view = RecordingView(history, timeline, observation, cut_ns, tuple(problems))
    return with_claims(view, promises) if isinstance(promises, ProgramPromises) else view
