# SPDX-License-Identifier: Apache-2.0
"""Certifies: runs a set of scenarios and draws up the certificate of what came out.

Everything is on disk as soon as it is known, so that a certificate that was interrupted, in
whatever way, is gone on with (`resume_certificate`) and comes out the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from powercut.campaign.resume import check_same_components, check_same_host
from powercut.campaign.run import Keep, Listener, Run, RunOptions
from powercut.campaign.runner import new_run, ready_rig, resume_run
from powercut.campaign.selection import Selection, trials_of
from powercut.model.errors import UsageError
from powercut.model.events import CellMeasured, CertifyStarted, Notice, TrialFinished
from powercut.model.named_path import openable
from powercut.rig.components import components_of
from powercut.rig.load_meter import LoadMeter
from powercut.rig.rig import Rig
from powercut.scenario.choices import DiskModel
from powercut.scenario.choose import Strategy
from powercut.scenario.load import Scenario, parse_scenario
from powercut.scenario.plan import Cell, Plan
from powercut.store.files import locked, remove_tree, write_atomic
from powercut.store.layout import CONTROLS, ResultDir
from powercut.store.results import wanted_verdict
from powercut.trial.controls import same_run
from powercut_extras.certify.build import certificate_of
from powercut_extras.certify.certificate import Certificate, Definition, NotTested
from powercut_extras.certify.confirm import confirm, is_analysed
from powercut_extras.certify.issuer import Issuer
from powercut_extras.certify.measure.cells import is_measurable
from powercut_extras.certify.measure.measure import measure_cell
from powercut_extras.certify.measured import drop_measured_evidence, read_measured
from powercut_extras.certify.order import CertificateDir, Order
from powercut_extras.certify.words import untested

_COMMITS: Final = 100
"""Commits that are measured of each cell: percentiles beyond p99 would need more."""


@dataclass(frozen=True)
class Request:
    """What is to be certified."""

    title: str
    scenarios: tuple[Scenario, ...]
    seed: int
    command: str
    selection: Selection = field(default_factory=Selection)
    models: tuple[DiskModel, ...] = ()
    measure: bool = True
    left_out: tuple[NotTested, ...] = ()
    heading: str = ""
    issuer: Issuer | None = None
    definition: Definition | None = None


@dataclass(frozen=True)
class Certified:
    """A certificate and its folder."""

    directory: CertificateDir
    certificate: Certificate


@dataclass(frozen=True)
class CertifyRunOptions:
    """How it is done, as far as it does not change what comes out."""

    jobs: int = 1
    keep: Keep = Keep.EVIDENCE
    on_event: Listener = field(default=lambda _: None)
    run_of: Callable[..., Run] | None = None


def certify(request: Request, results: Path, options: CertifyRunOptions) -> Certified:
    """Runs all that `request` asks for, and certifies it.

    Raises UsageError for what cannot be asked for, and HostError if this host cannot run it.
    """
    names = [scenario.name for scenario in request.scenarios]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(
            f"two scenarios are called {twice[0]!r}", hint="a certificate names each by its name"
        )
    # Whatever is wrong with a selection shows before a folder is made.
    plans = [request.selection.plan(scenario, request.seed) for scenario in request.scenarios]
    cells = [cell.parameters for plan in plans for cell in plan.cells]
    order = Order(
        title=request.title,
        seed=request.seed,
        command=request.command,
        scenarios=tuple(names),
        strategy=strategy_of(request.scenarios),
        selection=request.selection.as_json(),
        measure=request.measure,
        models=request.models,
        left_out=(*request.left_out, *(() if request.definition else untested(cells))),
        definition=request.definition,
        heading=request.heading,
        issuer=request.issuer,
    )
    texts = {scenario.name: scenario.text for scenario in request.scenarios}
    directory = CertificateDir.create(results, order, texts)
    return _go_on(directory, options)


def resume_certificate(path: Path, options: CertifyRunOptions) -> Certified:
    """Goes on with the certificate at `path`, which may also be complete.

    Raises UsageError if there is none, or if this host is not as it was.
    """
    return _go_on(CertificateDir.open(path), options)


def strategy_of(scenarios: Sequence[Scenario]) -> str:
    """How the combinations of `scenarios` were chosen, as far as there are any."""
    if any(scenario.strategy is Strategy.PAIRWISE for scenario in scenarios):
        return "pairwise"
    if any(scenario.settings.matrix for scenario in scenarios):
        return "product"
    return "listed"


def _go_on(directory: CertificateDir, options: CertifyRunOptions) -> Certified:
    with locked(directory.path, "certificate"):
        order = directory.read_order()
        work = [_load(directory, order, name) for name in order.scenarios]
        plans = [plan for _, plan in work]
        rig = ready_rig(plans, options.on_event)
        options.on_event(
            CertifyStarted(
                title=order.title,
                seed=order.seed,
                scenarios=len(plans),
                cells=sum(len(plan.cells) for plan in plans),
                trials=sum(trials_of(plan) + _measured(plan, order) for plan in plans),
                directory=directory.path,
            )
        )
        # What lost records is looked at once more before it goes.
        keep = Keep.NOTABLE if options.keep is Keep.NONE else options.keep
        of_each = RunOptions(options.jobs, keep, options.on_event, run_of=options.run_of)
        for scenario, plan in work:
            start, meter = time.monotonic(), LoadMeter()
            ended = _run(rig, directory, order, scenario, plan, of_each)
            if options.keep is Keep.NONE:
                _drop_all(ended)
            directory.add_spent(time.monotonic() - start, meter.read())
        certificate = certificate_of(directory)
        write_certificate(directory, certificate)
    return Certified(directory, certificate)


def write_certificate(directory: CertificateDir, certificate: Certificate) -> None:
    """Writes certificate.json.  Raises HostError."""
    write_atomic(directory.certificate, certificate.model_dump_json(indent=1).encode() + b"\n")


def _load(directory: CertificateDir, order: Order, name: str) -> tuple[Scenario, Plan]:
    path = directory.scenario(name)
    scenario = parse_scenario(openable(path).read_text(encoding="utf-8"), path)
    return scenario, Selection.of_json(order.selection).plan(scenario, order.seed)


def _run(
    rig: Rig,
    directory: CertificateDir,
    order: Order,
    scenario: Scenario,
    plan: Plan,
    options: RunOptions,
) -> ResultDir:
    """Runs one scenario, or resumes it, or takes it as it is."""
    run = directory.run_of(plan.scenario)
    if run is None:
        selection = Selection.of_json(order.selection)
        new_run(rig, scenario, plan, selection, directory.runs, options)
    elif run.ended:
        check_same_host(run.read_environment(), rig.environment(plan))
        check_same_components(run, components_of(rig, plan.cells))
        _count_earlier(run, options.on_event)
    else:
        resume_run(run.path, options, rig)
    ended = directory.run_of(plan.scenario)
    assert ended is not None
    for trial in ended.trials():
        record = trial.read_record()
        if record.control is not None:
            options.controls.setdefault(same_run(record.parameters), trial)
    _confirm(ended, options)
    for cell in plan.cells:
        if order.measure and is_measurable(cell.parameters):
            _measure(rig, ended, order, plan.scenario, cell, options)
    return ended


def _count_earlier(run: ResultDir, on_event: Listener) -> None:
    """What a run has made that came to its end is done, too, for the count."""
    told = run.read_verdict()
    for cell in told.cells:
        for trial in cell.trials:
            as_expected = trial.verdict is wanted_verdict(cell.expected)
            on_event(
                TrialFinished(
                    cell.cell,
                    trial.trial,
                    trial.verdict,
                    trial.commits_acked,
                    trial.commits_lost,
                    seconds=0.0,
                    as_expected=as_expected,
                    earlier=True,
                )
            )
    own = {one.result_directory: one for cell in told.cells for one in cell.controls}
    for folder, one in own.items():
        if folder.startswith(f"{CONTROLS}/"):  # another one is a trial of a cell
            name = Path(folder).parent.name
            on_event(
                TrialFinished(
                    name,
                    1,
                    one.verdict,
                    acked=0,
                    lost=0,
                    seconds=0.0,
                    control=True,
                    as_expected=one.behaved,
                    earlier=True,
                )
            )


def _measured(plan: Plan, order: Order) -> int:
    return sum(is_measurable(cell.parameters) for cell in plan.cells) * order.measure


def _confirm(run: ResultDir, options: RunOptions) -> None:
    """Sees again, in what was recorded of it, every loss that analysis alone cannot name."""
    for cell in run.read_verdict().cells:
        for trial in cell.trials:
            if not trial.live_losses or is_analysed(trial):
                continue
            place = run.at(trial.result_directory)
            if place.kept and not confirm(place, trial).confirmed:
                options.on_event(
                    Notice(f"{cell.cell} #{trial.trial}: its loss was not seen again.")
                )


def _drop_all(run: ResultDir) -> None:
    for trial in run.trials():
        trial.drop_evidence()


def _measure(
    rig: Rig, run: ResultDir, order: Order, scenario: str, cell: Cell, options: RunOptions
) -> None:
    """Measures a cell unless that was done; one at a time, as others would slow it down."""
    place = run.measurement(cell.name)
    earlier = read_measured(run, cell.name, cell.parameters)
    made = earlier
    if made is None:
        remove_tree(place)  # of one that was interrupted
        made = measure_cell(rig, scenario, cell, place, models=order.models, commits=_COMMITS)
    if options.keep is not Keep.ALL:
        drop_measured_evidence(run, cell.name)
    options.on_event(CellMeasured(cell.name, made.trouble, earlier=earlier is not None))
