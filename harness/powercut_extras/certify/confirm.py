# SPDX-License-Identifier: Apache-2.0
"""Confirms a loss from its recording alone.

Where the bytes of a record survived and only what leads to them is gone, exposure analysis
cannot name the record.  Then the disk that the cut left is built again from the recording and
given to the recorded kernel, in a guest of its own: it must lose the very same records; a program's
check is asked as often as what convicts (powercut.checkers.repetition).
confirmation.json beside the recording says whether it did; it lies outside of the seal, since
it follows from it.
"""

from __future__ import annotations

from typing import Final

from powercut.checkers.repetition import ASKED
from powercut.explore.state_judge import guest_judge
from powercut.model.errors import HostError, PowercutError
from powercut.model.verdict import EvidenceLevel, FindingKind, Verdict
from powercut.recording.consent import require_consent
from powercut.recording.disk import cut_state
from powercut.recording.open_recording import open_disk
from powercut.rig.rig import require_recorded_program
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult
from powercut_extras.certify.confirmation import Confirmation, read_confirmation, write_confirmation

_NEVER_NAMED: Final = frozenset({FindingKind.NOT_RECOVERED, FindingKind.UNREADABLE})
"""What no analysis of what is on the medium can tell: a system that does not come back, and a
place that it cannot read."""


def _live_lsns(trial: TrialResult) -> set[int]:
    return {lsn for finding in trial.live_losses for span in finding.lsns for lsn in span}


def is_analysed(trial: TrialResult) -> bool:
    """Whether the analysis of the recording names every record that the cut lost.

    Of a live-only trial there is no recording to be analysed.
    """
    kinds = {finding.kind for finding in trial.findings}
    losses = trial.live_losses
    return (
        bool(losses)
        and trial.evidence_level is EvidenceLevel.RECORDED
        and FindingKind.DISAGREEMENT not in kinds
        and not any(finding.unreachable for finding in losses)
        and not any(finding.kind in _NEVER_NAMED for finding in losses)
    )


def seen_again(trial: TrialDir, result: TrialResult) -> bool:
    """Whether `confirm` has seen the very records go that the cut lost.

    Raises DamagedRecording.
    """
    confirmation = read_confirmation(trial)
    if confirmation is None or not confirmation.confirmed:
        return False
    return {lsn for span in confirmation.lsns for lsn in span} == _live_lsns(result)


def confirm(trial: TrialDir, result: TrialResult) -> Confirmation:
    """Recovers what the cut left once more, unless that was done; see the module.

    Raises HostError if the outcome cannot be written.
    """
    known = read_confirmation(trial)
    if known is not None:
        return known
    made = _confirm(trial, result)
    write_confirmation(trial, made)
    return made


def _confirm(trial: TrialDir, result: TrialResult) -> Confirmation:
    try:
        return recovered_again(trial, result)
    except PowercutError as error:
        return Confirmation(confirmed=False, how=f"it could not be tried: {error}")


def recovered_again(trial: TrialDir, result: TrialResult) -> Confirmation:
    """Recovers what the cut left once more, whatever is written down of it; writes nothing.

    Raises PowercutError if that cannot be tried, or did not come to its end.
    """
    recording = open_disk(trial.path)
    system = recording.system
    if not recording.imported:
        require_consent(recording.directory, system.parameters)
    require_recorded_program(system.parameters, system.versions, system.program_files)
    lost, cut = _live_lsns(result), cut_state(recording.space)
    with guest_judge(recording) as states:
        for _ in range(1 if recording.known_promises is None else ASKED):
            again = states.judge(cut)
            if again.verdict is Verdict.INCONCLUSIVE:
                raise HostError(again.message)
            if not lost or again.lsns != lost:
                how = "the disk that the cut left was recovered again, and lost other records"
                return Confirmation(confirmed=False, how=how, lsns=again.lost)
    how = "the disk that the cut left was recovered again, and lost the same records"
    return Confirmation(confirmed=True, how=how, lsns=again.lost)
