# SPDX-License-Identifier: Apache-2.0
"""The verdict on one recording, from what is on disk and from nothing else.

`verdict_of` is the only way to one: a live run, `powercut verify`, bundles, certificates and hosts
of a cluster call it on the same files; so they cannot differ.

What was claimed chooses the checkers: records of a log, whose bytes are known in the captured
writes (powercut.verdict.records), or operations of a program, which its own check looks for
(powercut.verdict.operations).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from powercut.checkers.judge import run_checkers
from powercut.model.events import Phase
from powercut.model.timeline import RequestKind, Timeline
from powercut.model.units import NEVER
from powercut.model.verdict import Verdict
from powercut.recording.sealed import SealedTrial
from powercut.store.trial_result import DiskShare, TrialResult
from powercut.verdict.operations import OperationsClaimed
from powercut.verdict.reading import Gaps
from powercut.verdict.records import RecordsClaimed
from powercut.verdict.states import CrashStates, with_states
from powercut.workload.port import AcksByLines


def verdict_of(
    sealed: SealedTrial,
    states: CrashStates,
    notify: Callable[[Phase], None] = lambda _: None,
) -> TrialResult:
    """The verdict that a recording deserves, with what its crash states say.

    `notify` hears what it is busy with.  Raises DamagedRecording as `judge_recording` does.
    """
    notify(Phase.JUDGE)
    result = judge_recording(sealed)
    notify(Phase.EXPLORE)
    return with_states(sealed, result, states)


def judge_recording(sealed: SealedTrial) -> TrialResult:
    """What a recording says without its crash states.  Writes nothing.

    Raises DamagedRecording if even trial.json cannot be read, or says another level of evidence
    than its settings make; all other damage is a finding and makes the verdict INCONCLUSIVE at
    best.
    """
    record = sealed.record
    by_lines = isinstance(sealed.workload, AcksByLines)
    sealed.check_level()
    gaps = Gaps(sealed)
    timeline = None if sealed.is_live else gaps.read(lambda: sealed.disk_log)
    claimed = (OperationsClaimed if by_lines else RecordsClaimed)(sealed, timeline, gaps)
    checkers = {"recording": lambda: gaps.findings, **claimed.checkers()}
    judgement = claimed.weighed(run_checkers(checkers))
    return TrialResult.judged(
        record.trial,
        verdict=max(judgement.verdict, Verdict.SURVIVED) if sealed.is_live else judgement.verdict,
        evidence_level=record.evidence_level,
        findings=judgement.findings,
        in_flight=timeline.in_flight if timeline is not None else None,
        timings_s=record.timings_s,
        result_directory=sealed.directory.relative,
        binding=sealed.binding.name,
        disks=() if timeline is None else disk_shares(timeline),
        **claimed.told(judgement),
    )


# What each of several disks was asked before the cut: which of them lied, or was never flushed.


def disk_shares(timeline: Timeline) -> tuple[DiskShare, ...]:
    """A share for each of several disks; empty if there is one alone."""
    requests = timeline.requests
    end = int(NEVER) if timeline.cut is None else int(timeline.cut.at)
    done = requests.completed_ns < end
    flush = requests.kind == RequestKind.FLUSH
    shares = []
    for disk in timeline.disks:
        its = done & (requests.offset >= disk.begin) & (requests.offset < disk.end)
        asked = np.flatnonzero(its & (flush | requests.fua)).tolist()
        shares.append(
            DiskShare(
                name=disk.name,
                writes=int((its & ~flush).sum()),
                flushes=len(asked),
                ignored=sum(timeline.ignored(index) for index in asked),
            )
        )
    return tuple(shares)
