# SPDX-License-Identifier: Apache-2.0
"""The verdict on a captured folder, from its recording and what its check found in crash states.

SAFE needs all of this; what is missing is told, and makes it INCONCLUSIVE:

1. The recording has no gap, and ten operations were acknowledged in it.
2. The check finds nothing in the folder as it was before the program's first attempt, and every
   acknowledged operation where nothing was lost.  Else no state is looked at: the check would
   convict nobody, and acquit nobody.
3. The control: on a host that ignores every sync the check misses something.
4. Of the files that were written it has read one at least, and not their names and sizes alone;
   those that it did not read are named beside the verdict.
5. `STATES_MIN` states were looked at, or all that there are; in none of them anything was lost,
   and none is unknown.

A state that loses something counts if it does so twice (powercut.checkers.repetition).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from powercut.model.enough import STATES_MIN, too_few_operations
from powercut.model.verdict import FindingKind, Verdict
from powercut.recording.folder import CaptureRecording
from powercut.store.folder import CaptureResult, CaptureStates, FolderSeen

_NOTICED: Final = (FindingKind.LOST, FindingKind.CORRUPT)


def verdict_of_capture(recording: CaptureRecording, seen: FolderSeen) -> CaptureResult:
    """The verdict on a recording of whose states this was `seen`."""
    states = seen.states
    reasons = tuple(dict.fromkeys(_reasons(recording, seen)))
    verdict = Verdict.SAFE
    if states.lossy_states or states.second_lossy:
        verdict = Verdict.LOSSY
    elif reasons or any(one.verdict != Verdict.LOSSY.name for one in states.findings):
        verdict = Verdict.INCONCLUSIVE
    fields = {name: getattr(states, name) for name in CaptureStates.model_fields}
    control = _control(seen)
    return CaptureResult(
        **fields,
        verdict=verdict.name,
        reasons=reasons,
        control="" if control is None else control.name,
    )


def _reasons(recording: CaptureRecording, seen: FolderSeen) -> Iterator[str]:
    """What keeps it from being SAFE, besides what was lost."""
    states = seen.states
    yield from recording.gaps
    if recording.doubts:
        return  # of the host's making: no state was looked at
    if few := too_few_operations(states.acknowledged):
        yield few
    yield from seen.doubts
    if states.positive is not None and not states.positive.passed:
        yield states.positive.message
        if recording.elsewhere:
            yield recording.elsewhere
    if states.reads is not None and states.reads.blind:
        yield states.reads.blind
    control = _control(seen)
    if control is None:
        return  # what the check says was not believed before
    if control is not Verdict.LOSSY:
        yield (
            "the control did not lose anything: on a host that ignores every sync the check missed "
            "nothing of what was acknowledged; so what it says is no evidence"
        )
    if states.states < STATES_MIN and not states.lossy_states and not seen.exhausted:
        yield f"only {states.states} states were looked at"


def _control(seen: FolderSeen) -> Verdict | None:
    """What the same recording comes to on a host that ignores every sync; None if unknown.

    A check that only cannot read what is left there has missed nothing.
    """
    if seen.control is None:
        return None
    if any(finding.kind in _NOTICED for finding in seen.control):
        return Verdict.LOSSY
    return Verdict.INCONCLUSIVE if seen.control else Verdict.SAFE
