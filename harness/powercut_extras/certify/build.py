# SPDX-License-Identifier: Apache-2.0
"""Draws up a certificate from what is on disk, and from nothing else.

So the same folder always gives the same certificate, and `powercut verify` finds
out whether one was changed by drawing it up again.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from powercut.model.confidence import log2_sum
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.verdict import EvidenceLevel, FindingKind, Verdict
from powercut.paths import as_word
from powercut.store.component import Component, Executed, read_components
from powercut.store.exploration import ExploreResult, read_exploration
from powercut.store.layout import ResultDir
from powercut.store.manifest import MANIFEST
from powercut.store.results import CellResult
from powercut.store.trial_dir import TrialDir
from powercut_extras.certify.causes import explanation_of
from powercut_extras.certify.certificate import (
    Certificate,
    CertifiedCell,
    CertifiedControl,
    Coverage,
    Definition,
    SealedRecording,
)
from powercut_extras.certify.confirm import is_analysed, seen_again
from powercut_extras.certify.flat import differing, flat
from powercut_extras.certify.measured import read_measured
from powercut_extras.certify.order import CertificateDir
from powercut_extras.certify.words import statement_of


def certificate_of(directory: CertificateDir) -> Certificate:
    """The certificate that the runs in `directory` give.

    Raises UsageError if not all of them have ended, and DamagedRecording if something is
    missing or damaged.
    """
    order = directory.read_order()
    runs = [(run, run.read_verdict()) for run in _ended(directory, order.scenarios)]
    components: dict[Component, int] = {}
    executed: dict[Executed, None] = {}
    cells: list[CertifiedCell] = []
    for run, result in runs:
        known = read_components(run)
        executed |= dict.fromkeys(known.executed)
        places = [components.setdefault(part, len(components)) for part in known.components]
        for cell in result.cells:
            parts = tuple(places[index] for index in known.cells.get(cell.cell, ()))
            cells.append(_cell(directory, run, cell, parts))
    environment = runs[0][0].read_environment()
    axes = axes_of(cells)
    return Certificate(
        powercut=runs[0][1].powercut,
        title=order.title,
        heading=order.heading,
        issuer=order.issuer,
        seed=order.seed,
        started=min(result.started for _, result in runs),
        seconds=directory.spent_s(),
        command=order.command,
        host=_host(environment),
        load=directory.load(),
        components=tuple(components),
        executed=tuple(executed),
        axes=axes,
        strategy=order.strategy,
        verdicts=counted(cells),
        as_expected=all_as_expected(cells, order.definition),
        definition=order.definition,
        cells=tuple(cells),
        not_tested=order.left_out,
        statement=statement_of(cells, order.left_out, order.definition),
    )


def all_as_expected(cells: Sequence[CertifiedCell], definition: Definition | None) -> bool:
    """Whether each cell got the expected verdict, and no disk of the machine was left out."""
    whole = definition is None or not definition.disks_left_out
    return whole and bool(cells) and all(cell.as_expected for cell in cells)


def counted(cells: Sequence[CertifiedCell]) -> dict[str, int]:
    """How many cells have each verdict; SURVIVED, which few can have, only if some do."""
    count = {v.name.lower(): sum(cell.verdict is v for cell in cells) for v in Verdict}
    if not count[Verdict.SURVIVED.name.lower()]:
        del count[Verdict.SURVIVED.name.lower()]
    return count


def _ended(directory: CertificateDir, names: Sequence[str]) -> list[ResultDir]:
    if not names:
        raise DamagedRecording(f"{directory.path}: its order names no scenario")
    runs = {name: directory.run_of(name) for name in names}
    left = [name for name, run in runs.items() if run is None or not run.ended]
    if left:
        raise UsageError(
            f"{directory.path}: {len(left)} of {len(names)} runs have not ended: "
            + ", ".join(left[:5]),
            hint=f"powercut certify --resume {as_word(directory.path)}",
        )
    return [run for run in runs.values() if run is not None]


def _host(environment: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **dict(environment.get("host", {})),
        "accelerator": environment.get("accelerator"),
        "python": environment.get("python"),
    }


def _cell(
    directory: CertificateDir, run: ResultDir, cell: CellResult, components: tuple[int, ...]
) -> CertifiedCell:
    measured = read_measured(run, cell.cell, cell.parameters)
    wire = None if measured is None else measured.wire
    explanation = explanation_of(cell, wire)
    return CertifiedCell(
        scenario=cell.scenario,
        cell=cell.cell,
        description=cell.description,
        settings=differing(cell.parameters),
        parameters=cell.parameters,
        components=components,
        verdict=cell.verdict,
        evidence_level=cell.evidence_level,
        expected=cell.expected,
        as_expected=cell.as_expected,
        cuts=len(cell.trials),
        acked=cell.commits_acked,
        lost=cell.commits_lost,
        lost_lsns=cell.lost_lsns,
        exposure=cell.exposure,
        acks=cell.acks,
        loss_probability_upper_95=cell.loss_probability_upper_95,
        coverage=_coverage(run, cell),
        controls=tuple(
            CertifiedControl(
                kind=control.kind,
                disk=control.disk,
                expected=control.expected,
                verdict=control.verdict,
                behaved=control.behaved,
                evidence=_evidence(directory, run.at(control.result_directory))
                if control.result_directory
                else None,
            )
            for control in cell.controls
        ),
        keeps=next((one.keeps for one in cell.trials if one.keeps != "every"), "every"),
        confirmed=confirmed(run, cell),
        explanation=str(explanation),
        cause=explanation.cause,
        cause_layer=explanation.layer,
        wire=wire,
        costs=() if measured is None else measured.costs,
        evidence=tuple(
            _evidence(directory, run.at(trial.result_directory)) for trial in cell.trials
        ),
        reproduce=cell.reproduce,
    )


def _coverage(run: ResultDir, cell: CellResult) -> Coverage | None:
    places = (run.at(trial.result_directory) for trial in cell.trials)
    return coverage_of(map(read_exploration, places))


def _evidence(directory: CertificateDir, trial: TrialDir) -> SealedRecording:
    path = trial.path / MANIFEST
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise DamagedRecording(f"{path}: {error.strerror}") from error
    relative = trial.path.relative_to(directory.path).as_posix()
    return SealedRecording(directory=relative, sha256=digest, kept=trial.kept)


def confirmed(run: ResultDir, cell: CellResult) -> bool | None:
    """Whether live cut and recording name the same lost records; None if nothing is lost.

    1. Some cut really lost records, or recovery of some crash state did: what might have been lost
       is a finding, not a confirmation.
    2. In no trial did recovery and recording disagree (powercut.checkers.agreement).
    3. Of each cut that lost, the analysis of the recording names every lost record; or, where
       only what leads to them is gone, recovery of the recorded disk loses the very same
       (powercut.campaign.confirm).  A crash state convicts only if the recorded kernel loses its
       records, too (powercut.explore.findings).

    None also where no disk was recorded: there is nothing that could confirm it.
    """
    if cell.verdict is not Verdict.LOSSY or cell.evidence_level is EvidenceLevel.LIVE_ONLY:
        return None
    losing = [trial for trial in cell.trials if trial.live_losses]
    kinds = {finding.kind for trial in cell.trials for finding in trial.findings}
    in_states = any(trial.states is not None and trial.states.lossy for trial in cell.trials)
    if not (losing or in_states) or FindingKind.DISAGREEMENT in kinds:
        return False
    return all(
        is_analysed(trial) or seen_again(run.at(trial.result_directory), trial) for trial in losing
    )


def coverage_of(explored: Iterable[ExploreResult | None]) -> Coverage | None:
    """What exploration saw of the crash states of trials; None if nothing was explored."""
    count, legal = Counter[str](), array("d")
    policies: Counter[str] = Counter()
    left_out: dict[str, None] = {}
    for result in explored:
        if result is None:
            continue
        told = result.coverage
        legal.extend(_legal(result))
        left_out[told.not_looked_at] = None
        policies.update(told.by_policy)
        count["checked"] += told.recovered + told.recovery_states
        count["decided"] += told.pruned - told.pruned_rerun
        count["went_on"] += told.went_on
        count["lossy"] += sum(
            finding.states for finding in result.findings if finding.verdict is Verdict.LOSSY
        )
    if not legal:
        return None
    return Coverage(
        legal_log2=round(log2_sum(legal), 2),
        checked=count["checked"],
        decided=count["decided"],
        lossy=count["lossy"],
        by_policy={policy: states for policy, states in policies.items() if states > 0},
        went_on=count["went_on"],
        not_looked_at="; ".join(text for text in left_out if text),
    )


def _legal(result: ExploreResult) -> tuple[float, ...]:
    """How many states there were to look at, as binary logarithms: of the recording, and of
    recoveries that were cut."""
    coverage = result.coverage
    if not coverage.recovery_states:
        return (coverage.legal_log2,)
    return (coverage.legal_log2, coverage.recovery_log2)


def axes_of(cells: Sequence[CertifiedCell]) -> dict[str, tuple[Any, ...]]:
    """The settings that vary between `cells`, and their values in order of appearance."""
    values: dict[str, list[Any]] = {}
    for cell in cells:
        for key, value in flat(cell.parameters).items():
            seen = values.setdefault(key, [])
            if value not in seen:
                seen.append(value)
    return {key: tuple(seen) for key, seen in values.items() if len(seen) > 1}
