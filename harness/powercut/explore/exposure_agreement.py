# SPDX-License-Identifier: Apache-2.0
"""Two ways to the same answer: what crash states lost, and what exposure analysis says.

What exposure analysis calls exposed must be lost in some state, if every ack was looked at with
nothing but the durable writes; and in a raw log nothing else may be lost.  Otherwise the two
disagree, and that is a bug in powercut.  But where no write shows a record's bytes, the scan does
not recognise them, and they are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Set

from powercut.checkers.agreement import bytes_not_judged
from powercut.checkers.wal import ranges_text
from powercut.crash.exposure import exposure
from powercut.model.verdict import Finding, FindingKind, Verdict, lsn_ranges
from powercut.recording.trial_recording import TrialRecording
from powercut.workload.port import Recognised


def contradictions(
    recorded: TrialRecording, lost: Set[int], *, saw_all_acks: bool, raw: bool
) -> Iterator[Finding]:
    """Where the records `lost` in some crash state are not those that were exposed.

    `saw_all_acks` says that every ack was looked at with nothing but the durable writes, `raw`
    that the log lies on the bare disk.  Nothing of workloads whose bytes are not recognised.
    """
    if not isinstance(recorded.promises, Recognised):
        return
    report = exposure(recorded.evidence)
    exposed = {lsn for span in report.exposed_lsns for lsn in span}
    unseen = {lsn for span in report.never_written_lsns for lsn in span}
    missed = exposed - lost if saw_all_acks else set()
    if missed & unseen:
        yield bytes_not_judged(lsn_ranges(missed & unseen), "came back in every state")
    if missed - unseen:
        yield _contradiction(
            "exposed, but came back in every state that was checked", missed - unseen
        )
    if raw and lost - exposed:
        yield _contradiction("lost in some state, but not exposed", lost - exposed)


def _contradiction(what: str, lsns: Set[int]) -> Finding:
    spans = lsn_ranges(lsns)
    return Finding(
        FindingKind.DISAGREEMENT,
        Verdict.INCONCLUSIVE,
        f"exploration and exposure analysis disagree: {what}: {ranges_text(spans)} "
        "(a bug in powercut)",
        spans,
    )
