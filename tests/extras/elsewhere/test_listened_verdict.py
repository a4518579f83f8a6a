# SPDX-License-Identifier: Apache-2.0
"""What a program said that ran anywhere, and what its check found after a cut that nobody saw."""

from __future__ import annotations

import pytest

from powercut.model.observation import Observation
from powercut.model.operations import Packet
from powercut.model.verdict import FindingKind, Verdict
from powercut.workload.program.claims import history_of
from powercut.workload.program.promises import ProgramPromises
from powercut_extras.elsewhere.judge import verdict_of_listened


def judged(operations: int, first: bytes, again: bytes | None = None):
    said = b"".join(b"? %d\n+ %d\n" % (one, one) for one in range(1, operations + 1))
    promises = ProgramPromises(history_of([Packet(1, said)]))
    looks = (Observation((), lines=lines) for lines in (first, first if again is None else again))
    judgement = verdict_of_listened(promises, *looks)
    return judgement.verdict, [finding.kind for finding in judgement.findings]


@pytest.mark.parametrize(
    ("operations", "looks", "verdict", "kinds"),
    [
        (10, (b"= 1-10\n",), Verdict.SURVIVED, []),
        (9, (b"= 1-9\n",), Verdict.INCONCLUSIVE, [FindingKind.INCOMPLETE]),
        (10, (b"= 1-9\n",), Verdict.LOSSY, [FindingKind.LOST]),
        (10, (b"= 1-9\n", b"= 1-10\n"), Verdict.INCONCLUSIVE, [FindingKind.INCOMPLETE]),
        (10, (b"= 1-11\n",), Verdict.SURVIVED, []),  # its announcement went with the power
    ],
    ids=["all", "few", "one-gone", "two-answers", "not-announced"],
)
def test_what_was_heard_survives_at_best(operations, looks, verdict, kinds):
    assert judged(operations, *looks) == (verdict, kinds)
