# SPDX-License-Identifier: Apache-2.0
"""Certificates made of runs in the store, for tests of what is drawn from them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from powercut.channel.history_file import read_history
from powercut.disk.pclog import read_timeline
from powercut.model.errors import PowercutError
from powercut.model.history import LatencyHistogram, upper_edge_ns
from powercut.model.timeline import RequestKind
from powercut.model.verdict import LsnRange, Verdict
from powercut.report.explained import explain
from powercut.scenario.choices import DiskModel, Expect
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.plan import Cell
from powercut.store.component import Component
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import Exposure, Latency
from powercut_extras.certify.build import counted
from powercut_extras.certify.certificate import (
    Certificate,
    CertifiedCell,
    CertifiedControl,
    NotTested,
    SealedRecording,
)
from powercut_extras.certify.measurement import Cost, RequestCounts, WireAccount

QEMU = Component(
    role="hypervisor", name="qemu-system-x86_64", version="7.2.22", package="qemu-system-x86 7.2",
    sha256="ab" * 32,
)  # fmt: skip
LINUX = Component(role="guest kernel", name="Linux", version="6.1.0-42-cloud-amd64")


def certificate_of_runs(directory: Path, **changes: Any) -> Certificate:
    """What the newest run of each scenario below `directory`/runs adds up to."""
    cells: list[CertifiedCell] = []
    for latest in sorted((directory / "runs").glob("*/latest")):
        run = ResultDir.open(latest.resolve())
        cells += [certified(directory, run, cell) for cell in run.read_verdict().cells]
    return certificate_of_cells(cells, **changes)


def certificate_of_cells(cells: Sequence[CertifiedCell], **changes: Any) -> Certificate:
    """A certificate of `cells`, with `changes` to its other fields."""
    caches = {cell.parameters.machine.cache.value: None for cell in cells}
    values: dict[str, Any] = {
        "powercut": "0.1.0",
        "title": "sample",
        "seed": 7,
        "started": "2026-11-21T11:05:45+00:00",
        "seconds": 193.4,
        "command": "./powercut certify --profile sample --seed 7",
        "host": {"kernel": "Linux 6.1", "processors": 2, "accelerator": "tcg"},
        "components": (QEMU, LINUX),
        "axes": {"machine.cache": tuple(caches)},
        "strategy": "product",
        "verdicts": counted(cells),
        "as_expected": all(cell.as_expected for cell in cells),
        "cells": tuple(cells),
        "not_tested": (
            NotTested(
                settings={"machine.bus": "ide"}, reason="not in this profile", combinations=8
            ),
            NotTested(reason="other hosts, kernels and disks than those named here"),
        ),
        "statement": "In these cells, on these versions, with these settings. No more than that.",
    }
    return Certificate(**(values | changes))


def certified(directory: Path, run: ResultDir, cell: CellResult) -> CertifiedCell:
    """`cell` of `run` with what its recordings say of wire and costs."""
    trials = [run.at(trial.result_directory) for trial in cell.trials if trial.result_directory]
    wire, costs = measured(trials[0]) if trials else (None, ())
    lossy = cell.verdict is Verdict.LOSSY
    return CertifiedCell(
        scenario=cell.scenario,
        cell=cell.cell,
        description=cell.description,
        settings=cell.overrides,
        parameters=cell.parameters,
        components=(0, 1),
        verdict=cell.verdict,
        expected=cell.expected,
        as_expected=cell.as_expected,
        cuts=len(cell.trials),
        acked=cell.commits_acked,
        lost=cell.commits_lost,
        lost_lsns=cell.lost_lsns,
        exposure=cell.exposure,
        loss_probability_upper_95=cell.loss_probability_upper_95,
        controls=tuple(
            CertifiedControl(
                kind=control.kind,
                expected=control.expected,
                verdict=control.verdict,
                behaved=control.behaved,
            )
            for control in cell.controls
        ),
        confirmed=True if lossy else None,
        explanation=explain(cell),
        wire=wire,
        costs=costs,
        evidence=tuple(evidence(directory, trial) for trial in trials),
        reproduce=cell.reproduce,
    )


def evidence(directory: Path, trial: TrialDir) -> SealedRecording:
    """The recording of `trial`."""
    manifest = (trial.path / "manifest.json").read_bytes()
    return SealedRecording(
        directory=trial.path.relative_to(directory).as_posix(),
        sha256=hashlib.sha256(manifest).hexdigest(),
        kept=True,
    )


def measured(trial: TrialDir) -> tuple[WireAccount | None, tuple[Cost, ...]]:
    """Wire and cost as far as the recording of a cut knows them."""
    try:
        recorded = read_history(trial.history)
        timeline = read_timeline(trial.disk_log, verify_payloads=False)
    except PowercutError:
        return None, ()
    acks = recorded.history.ack_ns
    if len(acks) < 2:
        return None, ()
    requests, commits = timeline.requests, len(acks)
    writes = requests.kind == RequestKind.WRITE
    disk = RequestCounts(
        writes=int(writes.sum()),
        fua_writes=int((requests.fua & writes).sum()),
        flushes=int((requests.kind == RequestKind.FLUSH).sum()),
        written_bytes=int(requests.length[writes].sum()),
    )
    machine = trial.read_record().parameters.machine
    ends = ""
    if machine.cache.no_flush:
        ends = "hypervisor"
    elif not disk.flushes and not disk.fua_writes:
        ends = "guest block layer"
    wire = WireAccount(
        commits=commits,
        committed_bytes=commits * 512,
        guest=None,
        hypervisor=None,
        disk=disk,
        flush_ends_at=ends,
        because=f"{disk.flushes} flushes reached the disk for {commits} commits." if ends else "",
    )
    seconds = float(acks[-1] - acks[0]) / 1e9
    return wire, (cost_of(seconds, commits, recorded.latency),) if seconds else ()


def cost_of(
    seconds: float,
    commits: int,
    histogram: LatencyHistogram | None = None,
    *,
    disk: DiskModel = DiskModel.NONE,
    limit: float | None = None,
) -> Cost:
    """The cost of `commits` in `seconds`; each took the mean where nobody measured."""
    mean_us = seconds / commits * 1e6
    if histogram is None or not histogram.count:
        latency = Latency(
            commits=commits, p50_us=mean_us, p95_us=mean_us, p99_us=mean_us, p99_9_us=mean_us,
            max_us=mean_us,
        )  # fmt: skip
        buckets: tuple[tuple[float, int], ...] = ((mean_us, commits),)
    else:
        latency = Latency.of(histogram)
        buckets = tuple(
            (upper_edge_ns(number) / 1000, count)
            for number, count in enumerate(histogram.buckets)
            if count
        )
    return Cost(
        disk=disk,
        commits=commits,
        seconds=seconds,
        commits_per_s=commits / seconds,
        latency=latency,
        histogram=buckets,
        medium_limit_per_s=limit,
    )


def cells_of_yaml(text: str, name: str = "some") -> list[CertifiedCell]:
    """The cells of a scenario, all SAFE without a run."""
    scenario = parse_scenario(text, Path(f"{name}.yaml"))
    return [
        planned(cell, scenario.name)
        for cell in expand(scenario, seed=1, trials=None, only=()).cells
    ]


def planned(cell: Cell, scenario: str) -> CertifiedCell:
    """`cell` as it would be certified if it were SAFE in one cut."""
    return CertifiedCell(
        scenario=scenario,
        cell=cell.name,
        description=cell.description,
        settings=dict(cell.overrides),
        parameters=cell.parameters,
        verdict=Verdict.SAFE,
        expected=cell.expect,
        as_expected=cell.expect is Expect.SAFE,
        cuts=1,
        acked=300,
        lost=0,
        exposure=Exposure(records=0, never_durable=0, longest_ms=0),
        loss_probability_upper_95=0.95,
        reproduce=f"./powercut run {scenario}.yaml --seed 1 --only {cell.name}",
    )


@cache
def _plain(name: str) -> CertifiedCell:
    (cell,) = cells_of_yaml(f"powercut: 1\nname: some\ndescription: d\ncells: [{{name: {name}}}]\n")
    return cell


def cell_of(
    name: str, verdict: Verdict, *, expected_lossy: bool = False, **changes: Any
) -> CertifiedCell:
    """A cell with a verdict, and whatever else is to be changed."""
    cell = _plain(name)
    expected = Expect.LOSSY if expected_lossy else Expect.SAFE
    lossy = verdict is Verdict.LOSSY
    values: dict[str, Any] = {
        "verdict": verdict,
        "expected": expected,
        "as_expected": verdict is (Verdict.LOSSY if expected_lossy else Verdict.SAFE),
        "lost": 300 if lossy else 0,
        "lost_lsns": (LsnRange(1, 300),) if lossy else (),
        "confirmed": True if lossy else None,
        "loss_probability_upper_95": 0.95 if verdict is Verdict.SAFE else None,
    }
    return cell.model_copy(update=values | changes)
