# SPDX-License-Identifier: Apache-2.0
"""Mark N is sector N - 1: a word, its number and the run.  What is required is a set."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from powercut.model.operations import OperationHistory
from powercut.model.units import NEVER
from powercut.model.verdict import Finding, FindingKind, Verdict, lsn_ranges
from powercut.workload.port import NOTHING_LATER, Contents, StateClaims

SECTOR = 512


def sector(number, run_id):
    return b"tally".ljust(8) + number.to_bytes(8, "little") + run_id.ljust(SECTOR - 16, b".")


@dataclass(frozen=True)
class TallyPromises:
    requirements: OperationHistory
    gaps: tuple[str, ...] = ()

    @property
    def acked(self):
        return len(self.requirements.acked)

    @property
    def attempted(self):
        return len(self.requirements.attempted)

    @property
    def start_ns(self):
        attempts = self.requirements.attempt_ns
        return int(attempts[0]) if len(attempts) else None

    def claims_at(self, instant):
        required = self.requirements.required(instant)
        return StateClaims(instant, (required,) if required else (), self.attempted)

    def claims_received(self):
        return self.claims_at(int(NEVER))

    def claims_after(self, later):
        return NOTHING_LATER

    def check(self, claims, observation):
        if not observation.complete:
            return (Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, observation.failure),)
        there = {extent.lsn for extent in observation.extents}
        lost = self.requirements.acked_before(claims.instant) - there
        if not lost:
            return ()
        message = f"{len(lost)} marks are gone"
        return (Finding(FindingKind.LOST, Verdict.LOSSY, message, lsn_ranges(lost)),)


class TallyWorkload:
    recovery_s = 20.0

    def __init__(self, parameters):
        self.settings = parameters.workload

    def problems(self):
        return ()

    def contents(self, run):
        return Contents()

    def preparation(self, run):
        return ()

    def writer(self, run):
        told = (f"run={run.run_id.hex()}", f"flushes={int(self.settings.flushes)}")
        return ("/bin/tally", "write", *told)

    def reader(self, run):
        return ("/bin/tally", "read", run.run_id.hex(), str(self.settings.marks))

    def reader_on_host(self, reader, image: Path):
        return (
            sys.executable,
            str(Path(__file__).with_name("read_marks.py")),
            str(image),
            *reader[2:],
        )

    def control(self, kind):
        return self.settings

    def unsynced(self):
        return self.settings.model_copy(update={"flushes": False})

    def promises_by_wire(self, run, timeline, history):
        return TallyPromises(
            OperationHistory(
                history.attempt_lsn,
                history.attempt_ns,
                history.ack_lsn,
                history.ack_ns,
                by_receipt=True,
            ),
            (f"tally failed: {history.error}",) if history.error else (),
        )
