# SPDX-License-Identifier: Apache-2.0
"""What this extra registers: `import` of a log, what is told of one, and `export` as one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from powercut.cli.extras import ForeignLogs, Option
from powercut.cli.options import FILE
from powercut.cli.output import Speaker, write_json_object
from powercut.model.contract import ATOMIC_UNIT
from powercut.model.errors import UsageError

if TYPE_CHECKING:
    from powercut_extras.logs.imports import LogLayout


def _tell(directory: Path, *, judge: bool = True, json_file: Path | None = None) -> int:
    """Prints which records of an imported log were acknowledged too early; exit status.

    1 LOSSY, 3 INCONCLUSIVE, 0 SAFE: nobody said what to expect of a foreign log.  Unless it is to
    `judge`: 3 if the log has doubts or is not whole, else 0.
    """
    from powercut.checkers.wal import ranges_text
    from powercut.model.verdict import Verdict
    from powercut.recording.open_recording import find_recording
    from powercut_extras.logs.imports import report_import

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


def _explore(
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
    from powercut_extras.logs.explore import explore_import as run

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


def _write(
    recording: Path, output: Path, say: Speaker, *, sector: str, as_seen: bool
) -> dict[str, Any]:
    """A flush that the disk ignored becomes a mark, so that a replay up to any place holds what
    the disk had kept by then."""
    from powercut.recording.open_recording import open_disk
    from powercut_extras.logs.imports import as_kept
    from powercut_extras.logs.logs import export_log

    opened = open_disk(recording)
    if opened.imported:
        raise UsageError(f"{recording}: was imported: its log is there already, in log.dmlw")
    if opened.timeline.disks:
        raise UsageError(
            f"{recording}: is of several disks, and such a log has no flush of one of them",
            hint="--format state writes crash states",
        )
    timeline = opened.timeline if as_seen else as_kept(opened.timeline)
    made = export_log(timeline, opened.history, output, sector_size=int(sector))
    say(
        f"{output}: dm-log-writes, {made.entries} entries, {made.flushes} flushes, "
        f"{made.marks} marks, {made.size} bytes"
    )
    if made.left_out:
        say(f"left out: {made.left_out} writes that never completed, or failed")
    if not opened.timeline.contract.honest:
        told = "as the stack above it believed it" if as_seen else "without what it ignored"
        say(f"the disk lied: this log is {told}")
    say(f"base image: {opened.base}")
    return {"size": made.size, "entries": made.entries, "base": str(opened.base)}


def _read(
    source: Path,
    output: Path,
    json_file: Path | None,
    *,
    base: Path | None,
    dialect: str,
    atomic_unit: int,
    salvage: bool,
    closed: bool,
    no_fua: bool,
    run_id: str | None,
    layout: str | None,
    **sizes: int | str,
) -> int:
    if base is None:
        raise UsageError(
            f"{source}: is no bundle; a log needs its base image",
            hint="--base IMAGE: the disk as it was before logging began",
        )
    from powercut_extras.logs.imports import import_recording
    from powercut_extras.logs.logs import Dialect

    made = import_recording(
        source,
        base=base,
        output=output,
        dialect=Dialect(dialect),
        layout=_layout(run_id, layout, sizes),
        atomic_unit=atomic_unit,
        salvage=salvage,
        closed=closed,
        no_fua=no_fua,
    )
    return _tell(made.path, judge=layout is not None, json_file=json_file)


def _layout(
    run_id: str | None, layout: str | None, sizes: dict[str, int | str]
) -> LogLayout | None:
    from powercut_extras.logs.imports import LogLayout

    if run_id is None and layout is None:
        return None
    if run_id is None or layout is None:
        raise UsageError(
            "--run-id and --layout go together",
            hint="give both, or neither if the log was not written by the WAL workload",
        )
    return LogLayout.model_validate(
        {"run_id": run_id, "layout": layout, "path": sizes.pop("inside"), **sizes}
    )


class Logs:
    """The port powercut.cli.extras."""

    import_options: Sequence[Option] = (
        click.option(
            "--base", type=FILE, help="Of a log: the disk as it was before logging began."
        ),
        click.option(
            "--dialect",
            type=click.Choice(["auto", "kernel", "qemu"]),
            default="auto",
            help="Writer of the log: the kernel's dm-log-writes or QEMU's blklogwrites.",
        ),
        click.option(
            "--atomic-unit",
            type=click.IntRange(1, 1 << 20),
            default=ATOMIC_UNIT,
            show_default=True,
            help="Bytes that the disk is trusted not to tear; the log does not say.",
        ),
        click.option(
            "--salvage", is_flag=True, help="Take what stands before the damage in the log."
        ),
        click.option("--closed", is_flag=True, help="QEMU was shut down cleanly (qemu only)."),
        click.option("--no-fua", is_flag=True, help="The guest's disk never got FUA (qemu only)."),
        click.option("--run-id", help="Run id of the WAL workload: 32 hexadecimal digits."),
        click.option(
            "--layout",
            help="Layout of its log: append, prealloc, prewritten, recycled, segments, raw.",
        ),
        click.option(
            "--record", type=int, default=512, show_default=True, help="Bytes of a record."
        ),
        click.option(
            "--align",
            type=int,
            default=0,
            show_default=True,
            help="Alignment of records, in bytes.",
        ),
        click.option(
            "--capacity", type=int, default=0, show_default=True, help="Bytes of the log."
        ),
        click.option(
            "--segment", type=int, default=0, show_default=True, help="Bytes of a segment."
        ),
        click.option("--offset", type=int, default=0, help="Where a raw log begins on the disk."),
        click.option("--path", "inside", default="log", help="Path of the log in its file system."),
    )
    export_options: Sequence[Option] = (
        click.option(
            "--sector",
            type=click.Choice(["512", "4096"]),
            default="512",
            show_default=True,
            help="Bytes of a sector of the dm-log-writes log.",
        ),
        click.option(
            "--as-seen",
            is_flag=True,
            help="dm-log-writes, of a lying disk: as the stack above believed it to be. Without "
            "this a flush that the disk ignored becomes a mark.",
        ),
    )
    read = staticmethod(_read)
    tell = staticmethod(_tell)
    explore = staticmethod(_explore)
    write = staticmethod(_write)


LOGS: Final[ForeignLogs] = Logs()
