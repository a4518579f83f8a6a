# SPDX-License-Identifier: Apache-2.0
"""Records of a log, whose bytes are known: what was claimed against the writes that carry them, and
against what came back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from powercut.checkers.acks import check_acks
from powercut.checkers.agreement import check_agreement, explain_losses
from powercut.checkers.judge import Checker, Judgement, without_conviction
from powercut.checkers.reading import reading_of
from powercut.checkers.wal import check_restarts, check_wal, required_after
from powercut.crash.dating import earliest_acks
from powercut.crash.evidence import Evidence
from powercut.crash.exposure import exposure
from powercut.crash.survival import survival
from powercut.disk.pclog import host_failures
from powercut.model.exposure import ExposureReport, Mask, ranges_of
from powercut.model.history import History
from powercut.model.observation import Observation
from powercut.model.operations import AckProof
from powercut.model.timeline import Timeline
from powercut.model.units import NEVER
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.recording.sealed import SealedTrial
from powercut.rig import commands
from powercut.store.trial_result import AckInstants, Exposure, lost_lsns
from powercut.verdict.loss_story import story_of
from powercut.verdict.reading import Gaps, observation_of
from powercut.verdict.untested import untested_of
from powercut.wal.layout import SlotState, WalLayout
from powercut.workload.wal.commands import wal_layout


class RecordsClaimed:
    """The records that a run claimed, with what there is of its evidence."""

    def __init__(self, sealed: SealedTrial, timeline: Timeline | None, gaps: Gaps) -> None:
        """Tells the `gaps` what is missing; `timeline` is that of the disk."""
        self._sealed = sealed
        recorded = gaps.read(lambda: sealed.acks)
        self._observation = gaps.read(lambda: observation_of(sealed))
        self._host_failed = host_failures(timeline) if timeline is not None else ()
        gaps.add(
            *(
                f"I/O error on the host, below the disk under test: {why}"
                for why in self._host_failed
            )
        )
        if recorded and not recorded.complete:
            gaps.add("the history of acks was cut off: later ones may be missing")
        if recorded and recorded.history.error:
            gaps.add(f"the workload failed: {recorded.history.error}")
        self._history = recorded.history if recorded else None
        self._latency = recorded.latency if recorded else None
        known = timeline is not None and recorded is not None
        self._evidence = gaps.read(lambda: sealed.evidence) if known else None
        self._attempted, self._recognised = self._history_attempted(), True
        self._report: ExposureReport | None = None
        if (evidence := self._evidence) is not None:
            # What reached the disk was attempted, even if the cut swallowed the message.
            self._attempted = max(evidence.history.attempted, evidence.claims.attempted)
            self._report = exposure(evidence)
            self._proof = prove_acks(evidence, self._report)
            self._recognised = _recognised(evidence, self._observation, self._attempted)

    def _history_attempted(self) -> int:
        history, back = self._history, self._observation
        if not self._sealed.is_live or history is None:
            return 0
        return history.attempted if back is None else attempted_at_least(history, back)

    def checkers(self) -> dict[str, Checker]:
        """By their names."""
        if self._sealed.is_live:
            history, back = self._history, self._observation
            layout = wal_layout(self._sealed.parameters)
            if history is None or back is None:
                return {}
            return {"live": lambda: check_live(history, back, layout)}
        facts = self._sealed.record.guest_facts
        promised = commands.promised_of_disks(self._sealed.parameters)
        checkers: dict[str, Checker] = {"environment": lambda: check_environment(facts, promised)}
        evidence, report = self._evidence, self._report
        if evidence is None or report is None:
            return checkers
        checkers["acks"] = lambda: check_acks(self._proof)
        checkers["restarts"] = lambda: check_restarts(
            evidence.history, evidence.layout, self._attempted
        )
        checkers["exposure"] = lambda: check_exposure(
            report, timeline_complete=evidence.timeline.complete, recognised=self._recognised
        )
        if self._observation:
            checkers |= _back_checkers(evidence, self._observation, self._attempted)
        return checkers

    def weighed(self, judgement: Judgement) -> Judgement:
        """Without conviction where the host failed the disk."""
        if not self._host_failed:
            return judgement
        why = f"its host failed the disk: {'; '.join(self._host_failed)}"
        return without_conviction(judgement, why)

    def told(self, judgement: Judgement) -> dict[str, Any]:
        """What a result says of records."""
        report = self._report if self._recognised else None
        told = {
            "acked": self._history.acked if self._history else 0,
            "attempted": self._attempted,
            "latency": self._latency,
        }
        if self._sealed.is_live:
            return told
        evidence, loss = self._evidence, None
        if evidence is not None and report is not None:
            loss = story_of(evidence, report, lost_lsns(judgement.findings))
        return told | {
            "exposure": None if report is None else _exposure(report),
            "acks": None if evidence is None else AckInstants.of(self._proof),
            "loss": loss,
            "untested": tuple(untested_of(self._sealed.record)),
        }


def _back_checkers(
    evidence: Evidence, observation: Observation, attempted: int
) -> dict[str, Checker]:
    """What came back, against the claims and against what the recording predicts."""
    history, layout = evidence.history, evidence.layout
    predicted = survival(evidence)

    def check_claims() -> list[Finding]:
        findings = check_wal(history, observation, layout, attempted)
        return explain_losses(findings, predicted, layout)

    def check_prediction() -> list[Finding]:
        required = required_after(history, layout, attempted)
        reading = reading_of(required, attempted, observation, layout)
        return check_agreement(reading, predicted, layout, unrecognised(evidence, required))

    checkers: dict[str, Checker] = {"wal": check_claims}
    if observation.recovered:
        checkers["agreement"] = check_prediction
    return checkers


def _recognised(evidence: Evidence, observation: Observation | None, attempted: int) -> bool:
    """Whether the scan knows the bytes of this workload's records when it sees them.

    It does not if a record came back of which no write shows all the bytes.  If it is not known
    what came back, some record must have been seen.
    """
    if observation is None or not observation.recovered or not observation.complete:
        return bool(len(evidence.runs))
    layout = evidence.layout
    required = required_after(evidence.history, layout, attempted)
    try:
        reading = reading_of(required, attempted, observation, layout)
    except ValueError:  # extents that no reader can have seen: the other checkers say so
        return True
    back = {lsn for span in reading.intact for lsn in span}
    return not any(lsn in back for span in unrecognised(evidence, required) for lsn in span)


def _exposure(report: ExposureReport) -> Exposure:
    return Exposure(
        records=int(report.exposed.sum()),
        never_durable=sum(len(span) for span in report.never_durable_lsns),
        longest_ms=round(report.longest_ns / 1e6, 3),
        lsns=report.exposed_lsns,
    )


# The checker of a trial that left no disk log: claims against what came back, and nothing else.
#
# What it finds is what powercut.checkers.wal finds, under two rules, since a guest's writes and its
# messages travel separately and no log says what reached the disk:
#
# 1. What came back was attempted, even if the cut swallowed the message.  So of a record that
#    never attempted nothing can be found.
# 2. A log that goes round gives a record up with the attempt that takes its slot, heard of or not.
#    Once more than half of its slots were attempted, nothing is required of it for certain:
#    INCOMPLETE, INCONCLUSIVE, and no loss.

_OF_THIS_LOG = (SlotState.INTACT, SlotState.TORN, SlotState.MISDIRECTED)
"""States of a slot whose LSN is that of a record of this run."""


def attempted_at_least(history: History, observation: Observation) -> int:
    """The highest LSN that was attempted, by what was heard and what came back."""
    seen = (e.lsn + e.count - 1 for e in observation.extents if e.lsn and e.state in _OF_THIS_LOG)
    return max(history.attempted, *seen, 0)


def check_live(history: History, observation: Observation, layout: WalLayout) -> list[Finding]:
    """What recovery gave back after a cut, against all that was claimed before it."""
    attempted = attempted_at_least(history, observation)
    if layout.wraps and 2 * attempted > layout.slots:
        return [
            Finding.unknown(
                f"{attempted:,} records were attempted in a log of {layout.slots:,} slots that "
                "goes round: without a disk log nothing shows which of them it has given up; raise "
                "workload.capacity, or cut earlier",
            )
        ]
    return check_wal(history, observation, layout, attempted)


# The environment checker: does the guest see what the configuration promises?
#
# A preset that did not take effect (a disk that says "write through" where "write back" was asked
# for) means that another configuration was tested: NOT_AS_CONFIGURED, INCONCLUSIVE.  A fact that
# the guest did not report is not a fact.


def check_environment(facts: Mapping[str, str], promised: Mapping[str, str]) -> list[Finding]:
    """One finding for each promised fact (`write_cache`, `fua`, ...) that is not as promised."""
    findings = []
    for name, expected in promised.items():
        seen = facts.get(name)
        if seen is not None and seen.strip() == expected:
            continue
        what = "did not say" if seen is None else f"sees {seen.strip()!r}"
        findings.append(
            Finding(
                FindingKind.NOT_AS_CONFIGURED,
                Verdict.INCONCLUSIVE,
                f"{name}: {expected!r} was promised, the guest {what}",
                detail={"fact": name, "promised": expected, "seen": seen},
            )
        )
    return findings


# The exposure checker: acked while a legal crash state still lost it.
#
# 1. A record that was exposed is a loss that only did not happen by luck: EXPOSED, LOSSY.
# 2. A record about which the timeline ends too early to tell: INCOMPLETE, INCONCLUSIVE.
# 3. Where a record came back of which no write shows the bytes, the scan does not recognise this
#    workload: bytes that were "never written" say nothing, and only records whose bytes were
#    seen can be EXPOSED.
# 4. A timeline that was cut short for other reasons than the cut itself says nothing
#    about what came later: INCOMPLETE, INCONCLUSIVE.


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
            Finding.unknown(
                "the recording of the disk ends before these records were acknowledged: "
                + LsnRange.text_of(report.unknown_lsns),
                report.unknown_lsns,
            )
        )
    elif not timeline_complete:
        findings.append(Finding.unknown("the disk log was not closed properly: its end is missing"))
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
        f"acknowledged before they were durable: {LsnRange.text_of(lsns)}; longest "
        f"{longest_ns / 1e6:.3f} ms: record {int(report.lsn[longest])} ({where})",
        lsns,
        detail,
    )


# Which acks are proved to have waited for the disk, and how well.
#
# A record was made durable by one request, a flush or a write that is durable on completion, and
# that request began at some instant.  If the earliest instant at which the record's ack can
# have been made (crash/dating.py) lies before that, the ack is not proved: what is known
# fits a workload that acknowledged before it called its sync.

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
