# SPDX-License-Identifier: Apache-2.0
"""What was found out about one trial, as it is stored in its verdict.json."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Final, Literal, Self

from pydantic import Field

from powercut.model import timeline
from powercut.model.history import LatencyHistogram
from powercut.model.operations import AckBasis, AckProof
from powercut.model.positive import PositiveControl
from powercut.model.reached import Reached
from powercut.model.verdict import (
    Difference,
    EvidenceLevel,
    Finding,
    FindingKind,
    LsnRange,
    Origin,
    Verdict,
    merged_ranges,
)
from powercut.scenario.plan import Trial
from powercut.store.loss_story import LossStory
from powercut.store.record import Record, VerdictName
from powercut.store.states_recovered import StatesRecovered

LOSS_KINDS: Final = frozenset(
    {
        FindingKind.LOST,
        FindingKind.UNSERIALIZABLE,
        FindingKind.TORN,
        FindingKind.CORRUPT,
        FindingKind.STALE,
        FindingKind.MISDIRECTED,
        FindingKind.UNREADABLE,
        FindingKind.NOT_RECOVERED,  # whatever was on the medium, nothing came back
    }
)
"""Findings that say of acknowledged records that they did not come back."""


class FindingRecord(Record):
    """One thing that a checker had to say."""

    kind: FindingKind
    """What is wrong."""

    verdict: VerdictName
    """What it alone implies."""

    message: str
    """In words."""

    lsns: tuple[LsnRange, ...] = ()
    """The records concerned, as ranges of LSNs, both ends included."""

    detail: dict[str, Any] = Field(default_factory=dict)
    """Further numbers; their names say their units."""

    origin: Origin = Origin.CUT
    """Whether it is about the cut and its recording, or about crash states that were explored."""

    unreachable: tuple[LsnRange, ...] = ()
    """The records of `lsns` whose bytes are on the medium: what led to them is gone."""

    difference: Difference | None = None
    """All that a program's check found, against what was acknowledged; null for other workloads."""

    @classmethod
    def of(cls, finding: Finding) -> Self:
        return cls(
            kind=finding.kind,
            verdict=finding.verdict,
            message=finding.message,
            lsns=finding.lsns,
            detail=dict(finding.detail),
            origin=finding.origin,
            unreachable=finding.unreachable,
            difference=finding.difference,
        )

    def finding(self) -> Finding:
        """The finding that was stored."""
        return Finding(
            self.kind,
            self.verdict,
            self.message,
            self.lsns,
            dict(self.detail),
            self.origin,
            self.unreachable,
            self.difference,
        )


class Exposure(Record):
    """Acknowledged records that were not durable on the captured disk when acknowledged."""

    records: int
    """How many."""

    never_durable: int
    """How many of them were still not durable at the end of the recording."""

    longest_ms: float
    """The longest exposure in milliseconds; to the end of the recording for those that
    never became durable."""

    lsns: tuple[LsnRange, ...] = ()
    """Which records."""


class InFlight(Record):
    """Requests that the disk had taken and not completed when its power went."""

    writes: int
    """How many writes, with FUA or without."""

    zeroes: int
    """How many write-zeroes."""

    discards: int
    """How many discards."""

    flushes: int
    """How many flushes."""

    survived: int
    """Of how many something was left on the medium, by the cut's policy."""

    @property
    def requests(self) -> int:
        return self.writes + self.zeroes + self.discards + self.flushes


class AckInstants(Record):
    """How well it is known when acks were made."""

    basis: AckBasis
    """What their instants rest on: the guest's `clock`, bounded by events that both clocks saw;
    their `receipt` by the controller; or a `mark` in the disk's own log."""

    window_us: float | None
    """How much earlier than the instant used an ack may have been made, in microseconds, at
    most; null if it is not known."""

    usual_window_us: float | None
    """The same, in the median."""

    gained_us: float
    """How much earlier than its receipt an ack was dated, in microseconds, at most."""

    shortest_sync_us: float | None
    """The shortest sync that made acknowledged records durable, in microseconds; null if there
    was none."""

    unproved: tuple[LsnRange, ...] = ()
    """Records that may have been acknowledged before their sync began."""

    reason: str = ""
    """Why the window is not known; empty if it is."""

    @classmethod
    def of(cls, proof: AckProof) -> Self:
        def us(value: int | None) -> float | None:
            return None if value is None else round(value / 1000, 1)

        return cls(
            basis=proof.basis,
            window_us=us(proof.window_ns),
            usual_window_us=us(proof.usual_window_ns),
            gained_us=round(proof.gained_ns / 1000, 1),
            shortest_sync_us=us(proof.shortest_sync_ns),
            unproved=proof.unproved,
            reason=proof.reason,
        )


class Latency(Record):
    """Commit latency as the workload measured it, in microseconds."""

    commits: int
    p50_us: float
    p95_us: float
    p99_us: float
    p99_9_us: float
    max_us: float

    @classmethod
    def of(cls, histogram: LatencyHistogram) -> Self:
        def at(percent: float) -> float:
            return histogram.percentile_ns(percent) / 1000

        return cls(
            commits=histogram.count,
            p50_us=at(50),
            p95_us=at(95),
            p99_us=at(99),
            p99_9_us=at(99.9),
            max_us=histogram.max_ns / 1000,
        )


class TrialResult(Record):
    """One seeded run: what was promised, what came back, what follows."""

    trial: int
    """Number of the trial in its cell, from 1."""

    seed: int
    """Its seed, derived from the root seed."""

    trigger: str
    """When the power went, in words."""

    verdict: VerdictName
    """The worst of its findings; `survived` at best where the evidence is live only."""

    evidence_level: EvidenceLevel = EvidenceLevel.RECORDED
    """What the verdict rests on: `recorded`, every request of the disk and what the cut left; or
    `live-only`, what came back after the cut and nothing else."""

    commits_acked: int
    """Highest acknowledged LSN."""

    commits_attempted: int
    """Highest attempted LSN."""

    commits_lost: int
    """Acknowledged records that did not come back unaltered."""

    lost_lsns: tuple[LsnRange, ...] = ()
    """Which ones, as ranges of LSNs, both ends included."""

    findings: tuple[FindingRecord, ...] = ()
    """What the checkers said."""

    exposure: Exposure | None = None
    """What the analysis of the recording says; null if there was none to analyse."""

    in_flight: InFlight | None = None
    """What the cut interrupted at the disk; null if the recording does not say so."""

    acks: AckInstants | None = None
    """How well it is known when acks were made; null if there was nothing to tell it from."""

    states: StatesRecovered | None = None
    """The crash states that were recovered; null if none were."""

    latency: Latency | None = None
    """Commit latency; null if the workload did not report it."""

    timings_s: dict[str, float] = Field(default_factory=dict)
    """How long each phase took, in seconds."""

    result_directory: str = ""
    """Folder of its recording, below that of the run; empty if it has none."""

    binding: str = ""
    """That of the recording, 64 hex digits."""

    disks: tuple[DiskShare, ...] = ()
    """What each was asked; empty if there is one disk alone."""

    loss: LossStory | None = None
    """How one of the lost records was lost; null if none was, if no single one can be told of."""

    positive: PositiveControl | None = None
    """What the check of a program found where nothing was lost; null for other workloads, for a
    control that must lose something, and where nothing was acknowledged."""

    keeps: Literal["every", "prefix", "opens"] = "every"
    """What a program promised of the operations that it acknowledged."""

    untested: tuple[str, ...] = ()
    """What the verdict on a program does not speak of, in words."""

    reached: Reached | None = None
    """How far the run of a program came; null for other workloads, and of a disk that was not
    recorded to its cut."""

    injected: tuple[str, ...] = ()
    """The errors that the disk was told to make and made, in words."""

    @property
    def live_losses(self) -> tuple[FindingRecord, ...]:
        """What the cut itself lost, without what exploration found besides."""
        return tuple(
            finding
            for finding in self.findings
            if finding.kind in LOSS_KINDS
            and finding.verdict is Verdict.LOSSY
            and finding.origin is Origin.CUT
        )

    @classmethod
    def judged(
        cls,
        trial: Trial,
        *,
        acked: int,
        attempted: int,
        findings: Sequence[Finding],
        in_flight: timeline.InFlight | None = None,
        latency: LatencyHistogram | None = None,
        **told: Any,
    ) -> Self:
        """A result; which records were lost follows from `findings`.  `told` are other fields."""
        lost = lost_lsns(findings)
        return cls(
            trial=trial.number,
            seed=trial.seed,
            trigger=str(trial.trigger),
            commits_acked=acked,
            commits_attempted=attempted,
            commits_lost=sum(len(span) for span in lost),
            lost_lsns=lost,
            findings=tuple(FindingRecord.of(finding) for finding in findings),
            in_flight=InFlight(**asdict(in_flight)) if in_flight is not None else None,
            latency=Latency.of(latency) if latency is not None else None,
            **told,
        )


def lost_lsns(findings: Iterable[Finding]) -> tuple[LsnRange, ...]:
    """The records that `findings` convict a run of losing."""
    return merged_ranges(
        span
        for finding in findings
        if finding.kind in LOSS_KINDS and finding.verdict is Verdict.LOSSY
        for span in finding.lsns
    )


# What each of several disks was asked before a cut, as the judge of the trial stored it.


class DiskShare(Record):
    """The requests of one disk that completed before the cut."""

    name: str
    """What the scenario calls it; `first` is the disk of `disk.size`."""

    writes: int
    """Writes, write-zeroes and discards."""

    flushes: int
    """Flushes, and writes with FUA."""

    ignored: int
    """How many of these it ignored."""
