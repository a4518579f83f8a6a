# SPDX-License-Identifier: Apache-2.0
"""Which acks are proved to have waited for the disk, and how well.

A record was made durable by one request, a flush or a write that is durable on completion, and
that request began at some instant.  If the earliest instant at which the record's ack can
have been made (crash/dating.py) lies before that, the ack is not proved: what is known
fits a workload that acknowledged before it called its sync.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from powercut.crash.dating import earliest_acks
from powercut.crash.evidence import Evidence
from powercut.model.exposure import ExposureReport, ranges_of
from powercut.model.operations import AckProof
from powercut.model.units import NEVER
from powercut.model.verdict import LsnRange

I64 = npt.NDArray[np.int64]


def prove_acks(evidence: Evidence, report: ExposureReport) -> AckProof:
    """What is proved of the acks in `evidence`, whose exposure `report` tells."""
    dating = evidence.dating
    gained_ns = int((dating.received_ns - dating.latest_ns).max(initial=0))
    judged = ~report.exposed & report.known & (report.durable_ns != NEVER)
    lsn, durable_ns = report.lsn[judged], report.durable_ns[judged]
    began_ns = _began(evidence, durable_ns)
    shortest = int((durable_ns - began_ns).min()) if len(lsn) else None
    window = dating.window_ns
    if window is None:
        return AckProof(dating.basis, None, None, gained_ns, shortest, reason=dating.reason)
    unproved = lsn[earliest_acks(evidence.history, dating, lsn) < began_ns]
    return AckProof(
        dating.basis,
        int(window.max(initial=0)),
        int(np.median(window)) if len(window) else 0,
        gained_ns,
        shortest,
        ranges_of(unproved),
    )


def _began(evidence: Evidence, durable_ns: I64) -> I64:
    """When the requests were submitted whose completion made something durable.

    No two instants of a disk log are equal, so each completion names its request.
    """
    requests = evidence.timeline.requests
    order = np.argsort(requests.completed_ns, kind="stable")
    position = np.searchsorted(requests.completed_ns, durable_ns, sorter=order)
    return np.asarray(requests.submitted_ns[order[position]], dtype=np.int64)


# Which records have bytes that the scan never recognised in any write.
#
# Of a record that did not come back that says that its bytes never reached the disk.  Of one
# that did it says that something keeps them in a form that the scan does not know.


def unrecognised(evidence: Evidence, asked: LsnRange | None) -> tuple[LsnRange, ...]:
    """The records of `asked` of which some chunk stands in no write at all."""
    if asked is None:
        return ()
    per_record = evidence.layout.chunks
    base, end = (asked.first - 1) * per_record, asked.last * per_record
    begin = np.clip(evidence.runs.chunk, base, end) - base
    until = np.clip(evidence.runs.chunk + evidence.runs.count, base, end) - base
    edges = np.zeros(end - base + 1, dtype=np.int64)
    np.add.at(edges, begin, 1)
    np.add.at(edges, until, -1)
    seen = (np.cumsum(edges)[:-1] > 0).reshape(-1, per_record).all(axis=1)
    return ranges_of(np.flatnonzero(~seen) + asked.first)
