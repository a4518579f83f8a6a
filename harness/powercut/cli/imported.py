# SPDX-License-Identifier: Apache-2.0
"""What imported logs say, for the commands that take them."""

from __future__ import annotations

from pathlib import Path

from powercut.cli.output import echo, echo_gaps


def analyze_import(directory: Path, *, judge: bool = True) -> int:
    """Prints which records of an imported log were acknowledged too early; exit status.

    1 LOSSY, 3 INCONCLUSIVE, 0 SAFE: nobody said what to expect of a foreign log.  Unless it is to
    `judge`: 3 if the log has doubts or is not whole, else 0.
    """
    from powercut.checkers.wal import ranges_text
    from powercut.model.verdict import Verdict
    from powercut.recording.imports import report_import
    from powercut.recording.open_recording import find_recording

    report = report_import(find_recording(directory))
    echo(
        f"{directory}: {report.record.source}, dialect {report.record.dialect}: {report.entries} "
        f"entries, {report.writes} writes ({report.fua_writes} with FUA), "
        f"{report.flushes} flushes, {report.marks} marks"
    )
    if report.record.log is not None:
        echo(f"acknowledged: {report.acked} records")
        echo(f"acknowledged too early, for certain: {ranges_text(report.exposed)}")
        echo(f"acknowledged too early, perhaps: {ranges_text(report.perhaps)}")
        echo(f"{report.verdict.name}" + "".join(f"\n  {why}" for why in report.reasons))
    else:
        echo_gaps(report.reasons)
    if judge:
        return {Verdict.SAFE: 0, Verdict.LOSSY: 1}.get(report.verdict, 3)
    return 3 if report.doubts or not report.complete else 0


def explore_import(
    directory: Path,
    *,
    model: str,
    states: int | None,
    seconds: float | None,
    engine: str,
    kernel: str,
) -> int:
    """Checks the crash states of an imported log; returns the exit status, as above."""
    from powercut.checkers.wal import ranges_text
    from powercut.crash.states import Model
    from powercut.model.verdict import Verdict
    from powercut.recording.open_recording import find_recording
    from powercut.witness.imported import explore_import as run

    # `exact` is what a recording of our own is explored with if nobody says otherwise.
    chosen = Model.EPOCH if model == Model.EXACT.value else Model(model)
    trial = find_recording(directory)
    trial.check_seal()
    explored = run(trial, model=chosen, limit=states, seconds=seconds, engine=engine, kernel=kernel)
    echo(f"engine: {explored.certain.engine}")
    for name, reading in (("certain", explored.certain), ("cautious", explored.cautious)):
        echo(f"{name} reading: {reading.coverage.text}")
        echo(f"  {reading.lossy} lose records: {ranges_text(reading.lost)}")
        if reading.first:
            echo(f"  the first of them: {reading.first}")
    echo(f"{explored.verdict.name} in the {chosen.value} model")
    for why in explored.reasons:
        echo(f"  {why}")
    return {Verdict.SAFE: 0, Verdict.LOSSY: 1}.get(explored.verdict, 3)
