# SPDX-License-Identifier: Apache-2.0
"""What imported logs say, for the commands that take them."""

from __future__ import annotations

from pathlib import Path

from powercut.cli.output import Speaker, write_json_object


def analyze_import(directory: Path, *, judge: bool = True, json_file: Path | None = None) -> int:
    """Prints which records of an imported log were acknowledged too early; exit status.

    1 LOSSY, 3 INCONCLUSIVE, 0 SAFE: nobody said what to expect of a foreign log.  Unless it is to
    `judge`: 3 if the log has doubts or is not whole, else 0.
    """
    from powercut.checkers.wal import ranges_text
    from powercut.model.verdict import Verdict
    from powercut.recording.imports import report_import
    from powercut.recording.open_recording import find_recording

    say = Speaker(json_file)
    report = report_import(find_recording(directory))
    say(
        f"{directory}: {report.record.source}, dialect {report.record.dialect}: {report.entries} "
        f"entries, {report.writes} writes ({report.fua_writes} with FUA), "
        f"{report.flushes} flushes, {report.marks} marks"
    )
    if report.record.log is not None:
        say(f"acknowledged: {report.acked} records")
        say(f"acknowledged too early, for certain: {ranges_text(report.exposed)}")
        say(f"acknowledged too early, perhaps: {ranges_text(report.perhaps)}")
        say(f"{report.verdict.name}" + "".join(f"\n  {why}" for why in report.reasons))
    else:
        say.gaps(report.reasons)
    told = {
        "source": report.record.source,
        "entries": report.entries,
        "writes": report.writes,
        "flushes": report.flushes,
        "acknowledged": report.acked,
        "verdict": report.verdict.name.lower() if report.record.log is not None else None,
        "reasons": list(report.reasons),
    }
    write_json_object("import", told, json_file)
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
    json_file: Path | None,
) -> int:
    """Checks the crash states of an imported log; returns the exit status, as above."""
    from powercut.checkers.wal import ranges_text
    from powercut.crash.states import Model
    from powercut.model.verdict import Verdict
    from powercut.recording.open_recording import find_recording
    from powercut.witness.imported import explore_import as run

    say = Speaker(json_file)
    # `exact` is what a recording of our own is explored with if nobody says otherwise.
    chosen = Model.EPOCH if model == Model.EXACT.value else Model(model)
    trial = find_recording(directory)
    trial.check_seal()
    explored = run(trial, model=chosen, limit=states, seconds=seconds, engine=engine, kernel=kernel)
    say(f"engine: {explored.certain.engine}")
    for name, reading in (("certain", explored.certain), ("cautious", explored.cautious)):
        say(f"{name} reading: {reading.coverage.text}")
        say(f"  {reading.lossy} lose records: {ranges_text(reading.lost)}")
        if reading.first:
            say(f"  the first of them: {reading.first}")
    say(f"{explored.verdict.name} in the {chosen.value} model")
    for why in explored.reasons:
        say(f"  {why}")
    told = {
        "model": chosen.value,
        "verdict": explored.verdict.name.lower(),
        "reasons": list(explored.reasons),
        "lost": {
            name: [list(one) for one in reading.lost]
            for name, reading in (("certain", explored.certain), ("cautious", explored.cautious))
        },
    }
    write_json_object("import-explored", told, json_file)
    return {Verdict.SAFE: 0, Verdict.LOSSY: 1}.get(explored.verdict, 3)
