# SPDX-License-Identifier: Apache-2.0
"""Which records have bytes that the scan never recognised in any write.

Of a record that did not come back that says that its bytes never reached the disk.  Of one
that did it says that something keeps them in a form that the scan does not know.
"""

from __future__ import annotations

import numpy as np

from powercut.crash.evidence import Evidence
from powercut.model.exposure import ranges_of
from powercut.model.verdict import LsnRange


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
