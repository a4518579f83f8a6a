# SPDX-License-Identifier: Apache-2.0
"""The exposure checker: acked while a legal crash state still lost it.

1. A record that was exposed is a loss that only did not happen by luck: EXPOSED, LOSSY.
2. A record about which the timeline ends too early to tell: INCOMPLETE, INCONCLUSIVE.
3. Where a record came back of which no write shows the bytes, the scan does not recognise this
   workload: bytes that were "never written" say nothing, and only records whose bytes were
   seen can be EXPOSED.
4. A timeline that was cut short for other reasons than the cut itself says nothing
   about what came later: INCOMPLETE, INCONCLUSIVE.
"""

from __future__ import annotations

import numpy as np

from powercut.checkers.wal import ranges_text
from powercut.model.exposure import ExposureReport, Mask, ranges_of
from powercut.model.units import NEVER
from powercut.model.verdict import Finding, FindingKind, Verdict


def check_exposure(
    report: ExposureReport, *, timeline_complete: bool = True, recognised: bool = True
) -> list[Finding]:
    """What the exposure analysis means; one finding for all exposed records.

    `recognised`: the scan knows the bytes of this workload when it sees them.
    """
    findings = []
    exposed = report.exposed if recognised else report.exposed & (report.write >= 0)
    if exposed.any():
        findings.append(_exposed(report, exposed))
    if report.unknown_lsns:
        findings.append(
            Finding(
                FindingKind.INCOMPLETE,
                Verdict.INCONCLUSIVE,
                "the recording of the disk ends before these records were acknowledged: "
                + ranges_text(report.unknown_lsns),
                report.unknown_lsns,
            )
        )
    elif not timeline_complete:
        findings.append(
            Finding(
                FindingKind.INCOMPLETE,
                Verdict.INCONCLUSIVE,
                "the disk log was not closed properly: its end is missing",
            )
        )
    return findings


def _exposed(report: ExposureReport, which: Mask) -> Finding:
    lsns = ranges_of(report.lsn[which])
    exposed = np.flatnonzero(which)
    longest = int(exposed[np.argmax(report.exposed_ns[exposed])])
    longest_ns = int(report.exposed_ns[longest])
    never = which & (report.durable_ns == NEVER)
    write = int(report.write[longest])
    where = (
        "some of its bytes were never written to the disk"
        if write < 0
        else f"write {write} in epoch {int(report.epoch[longest])}"
    )
    undone = which & report.undone
    detail: dict[str, object] = {
        "records": len(exposed),
        "never_durable": int(never.sum()),
        "never_written": int((which & (report.write < 0)).sum()),
        "written_over": int(undone.sum()),
        "longest_ns": longest_ns,
        "longest_lsn": int(report.lsn[longest]),
        "longest_write": write,
        "longest_epoch": int(report.epoch[longest]),
    }
    return Finding(
        FindingKind.EXPOSED,
        Verdict.LOSSY,
        f"acknowledged before they were durable: {ranges_text(lsns)}; longest "
        f"{longest_ns / 1e6:.3f} ms: record {int(report.lsn[longest])} ({where})",
        lsns,
        detail,
    )
