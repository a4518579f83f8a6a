# SPDX-License-Identifier: Apache-2.0
"""Why a cell is not SAFE, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_FLOOR

from powercut.model.confidence import interval, percent
from powercut.model.contract import CutKind
from powercut.model.units import count, milliseconds
from powercut.model.verdict import EvidenceLevel, FindingKind, Origin, Verdict, merged_ranges
from powercut.report.words import Unit, ranges, unit_of, with_article
from powercut.scenario.machines import row_of
from powercut.scenario.settings import ControlKind
from powercut.store.reasons import LIVE_ONLY, in_groups, live_words
from powercut.store.results import CellResult
from powercut.store.trial_result import DiskShare, Exposure, FindingRecord, TrialResult

_CAME_BACK = {
    FindingKind.LOST: "did not come back",
    FindingKind.UNSERIALIZABLE: "did not come back, although later ones did",
    FindingKind.TORN: "came back in part",
    FindingKind.CORRUPT: "came back with bytes that were never written",
    FindingKind.STALE: "came back as an older generation",
    FindingKind.MISDIRECTED: "turned up in the wrong place",
    FindingKind.UNREADABLE: "could not be read",
}


def explain(cell: CellResult) -> str:
    """Why a cell is not SAFE, in a sentence or two; empty if it is."""
    match cell.verdict:
        case Verdict.SAFE:
            return ""
        case Verdict.SURVIVED:
            words = live_words(len(cell.trials), cell.loss_probability_upper_95)
            return f"{words}. {_own_cache(cell)}".strip()
        case Verdict.INCONCLUSIVE:
            told = _reasons(cell)
            reasons = "; ".join(told) or "the reason was not recorded"
            return f"Nothing can be said: {reasons}."
        case Verdict.LOSSY:
            return " ".join(_loss_sentences(cell))


def _own_cache(cell: CellResult) -> str:
    """How far a cut without a loss reaches, where the disk is the machine's own."""
    if any(one.kind is ControlKind.NO_FLUSH and one.behaved for one in cell.controls):
        return "Its cuts take the disk's own cache: without flushes the control lost it."
    if not row_of(cell.parameters.machine.backend).own_system:
        return ""
    if cell.parameters.cut.kind is not CutKind.POWER_LOSS:
        return "Such a cut leaves the disk its own cache."
    return (
        "Nothing shows that its cuts take the disk's own cache: `controls: [no-sync, no-flush]` "
        "would."
    )


def _loss_sentences(cell: CellResult) -> list[str]:
    bad = [trial for trial in cell.trials if trial.verdict is Verdict.LOSSY]
    sentences = []
    if len(cell.trials) > 1:
        sentences.append(_how_often(len(bad), cell))
    worst, unit = cell.worst_trial, unit_of(cell.parameters)
    if worst is None:
        return sentences
    if len(bad) > 1:
        sentences.append(f"The worst is trial {worst.trial}.")
    sentences += [_what_came_back(worst, unit), *blamed(worst.disks)]
    if worst.exposure is not None and worst.exposure.records:
        sentences.append(_what_was_exposed(worst.exposure, bool(worst.commits_lost)))
    sentences.append(_what_states_lost(worst, unit))
    sentences += [
        f"{finding.message.rstrip('.')}."
        for finding in worst.findings
        if finding.kind is FindingKind.NOT_RECOVERED and not _of_states(finding)
    ]
    if cell.evidence_level is EvidenceLevel.LIVE_ONLY:
        sentences.append(f"{LIVE_ONLY[:1].upper()}{LIVE_ONLY[1:]}.")
    # A control that misbehaved does not undo a loss, but it must not be missed.
    sentences += [f"Beware: {reason}." for reason in _reasons(cell)]
    return [sentence for sentence in sentences if sentence]


def _reasons(cell: CellResult) -> tuple[str, ...]:
    return in_groups(cell.reasons, cell.trials, several=len(cell.trials) > 1)


def _how_often(bad: int, cell: CellResult) -> str:
    """How many cuts convict a cell; and how many would, if all could be judged."""
    said = f"{bad} of {len(cell.trials)} cuts convict it"
    if any(trial.verdict is Verdict.INCONCLUSIVE for trial in cell.trials):
        return f"{said}."
    low, high = interval(bad, len(cell.trials))
    return (
        f"{said}: {percent(low, rounding=ROUND_FLOOR)} to {percent(high)} of such cuts would "
        "(at 95 % confidence)."
    )


def _what_came_back(trial: TrialResult, unit: Unit) -> str:
    if not trial.commits_lost:
        if any(f.kind is FindingKind.NEVER_ATTEMPTED for f in trial.findings):
            return f"{with_article(unit.noun).capitalize()} came back that was never written."
        if trial.exposure is not None and trial.exposure.records:
            return "Every acknowledged record came back this time, by luck."
        return ""
    live = [finding for finding in trial.findings if not _of_states(finding)]
    parts = [_one_kind(kind, live, unit) for kind in _CAME_BACK]
    said = "; ".join(part for part in parts if part)
    acked = count(trial.commits_acked, f"acknowledged {unit.noun}")
    if not said and all(finding.verdict is not Verdict.LOSSY for finding in live):
        return f"This cut spared its {acked}."
    if not said:  # a system that did not recover, whose finding follows
        said = f"{trial.commits_lost:,} ({unit.place(ranges(trial.lost_lsns))}) did not come back"
    return f"Of {acked}, {said}."


def _of_states(finding: FindingRecord) -> bool:
    return finding.origin is Origin.EXPLORATION


def _what_states_lost(trial: TrialResult, unit: Unit) -> str:
    found = [f for f in trial.findings if _of_states(f) and f.verdict is Verdict.LOSSY]
    if not found or trial.states is None:
        return ""
    first = found[0].message.rstrip(".")
    return (
        f"{trial.states.lossy:,} of {count(trial.states.states, 'state')} that other cuts of this "
        f"run may leave lose {unit.noun}s when they are recovered: {first}."
    )


def _one_kind(kind: FindingKind, findings: Sequence[FindingRecord], unit: Unit) -> str:
    spans = merged_ranges(
        span for finding in findings if finding.kind is kind for span in finding.lsns
    )
    number = sum(len(span) for span in spans)
    return f"{number:,} ({unit.place(ranges(spans))}) {_CAME_BACK[kind]}" if spans else ""


def _what_was_exposed(exposure: Exposure, any_lost: bool) -> str:
    who = count(exposure.records, "record")
    verb = "was" if exposure.records == 1 else "were"
    if exposure.never_durable == exposure.records:
        end = f"and never became so ({milliseconds(exposure.longest_ms)} until the end)"
    else:
        end = f"for up to {milliseconds(exposure.longest_ms)}"
    sentence = f"{who} {verb} acknowledged while not yet durable on the disk, {end}"
    return f"{sentence}." if any_lost else f"{sentence}: a cut in that time may lose them."


def blamed(disks: Sequence[DiskShare]) -> list[str]:
    """A sentence for each disk that lied, or was sent no flush, where another did and was not."""
    if not any(disk.flushes > disk.ignored for disk in disks):
        return []
    return [sentence for disk in disks if (sentence := _of(disk))]


def _of(disk: DiskShare) -> str:
    if disk.ignored:
        return (
            f"Disk {disk.name} ignored {disk.ignored:,} of {disk.flushes:,} flushes and writes "
            "with FUA."
        )
    if disk.writes and not disk.flushes:
        return f"Disk {disk.name} was sent {disk.writes:,} writes and no flush."
    return ""
