# SPDX-License-Identifier: Apache-2.0
"""What this extra registers: `import` of a log, what is told of one, and `export` as one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import click

from powercut.cli.commands import cli
from powercut.cli.extras import ForeignLogs
from powercut.cli.options import FILE, budget_option
from powercut.cli.output import Speaker, write_json_object
from powercut.model.errors import UsageError
from powercut.model.printable import printable, words_of
from powercut.model.verdict import LsnRange, Verdict, lsn_ranges

if TYPE_CHECKING:
    from powercut.explore.request import ExploreRequest, Listener
    from powercut.store.exploration import ExploreResult
    from powercut_extras.logs.checks import LogChecks
    from powercut_extras.logs.imports import ImportReport, LogLayout

_BUDGET: Final = "60s"
_MARKS_SHOWN: Final = 40


def _tell(directory: Path, *, judge: bool = True, json_file: Path | None = None) -> int:
    """Prints which records of an imported log were acknowledged too early; exit status.

    1 LOSSY, 3 INCONCLUSIVE, 0 SAFE: nobody said what to expect of a foreign log.  Unless it is to
    `judge`, and of a log whose states are checked: 3 if the log has doubts or is not whole, else 0.
    """
    from powercut.recording.open_recording import find_recording
    from powercut.store.exploration import read_exploration
    from powercut_extras.logs.imports import report_import

    say, trial = Speaker(json_file), find_recording(directory)
    report = report_import(trial)
    _summarise(directory, report, say)
    verdict = None
    if report.record.log is not None:
        verdict = report.verdict
        say(f"acknowledged: {report.acked} records")
        say(f"acknowledged too early, for certain: {LsnRange.text_of(report.exposed)}")
        say(f"acknowledged too early, perhaps: {LsnRange.text_of(report.perhaps)}")
        say(f"{report.verdict.name}" + "".join(f"\n  {why}" for why in report.reasons))
    else:
        say.gaps(report.reasons)
    if report.record.checks is not None and (explored := read_exploration(trial)) is not None:
        verdict = explored.verdict
        for line in _told("certain", explored, report.named_marks):
            say(line)
        say(f"{verdict.name} in the {explored.model} model")
    elif report.record.checks is not None:
        say("not judged yet: `powercut explore` does")
    told = {
        "source": report.record.source,
        "entries": report.entries,
        "writes": report.writes,
        "flushes": report.flushes,
        "marks": list(report.marks),
        "acknowledged": report.acked,
        "verdict": None if verdict is None else verdict.name.lower(),
        "reasons": list(report.reasons),
    }
    write_json_object("import", told, json_file)
    if judge and report.record.checks is None:
        return {Verdict.SAFE: 0, Verdict.LOSSY: 1}.get(report.verdict, 3)
    return 3 if report.doubts or not report.complete else 0


def _summarise(directory: Path, report: ImportReport, say: Speaker) -> None:
    """What the log holds, and its marks."""
    say(
        f"{directory}: {report.record.source}, dialect {report.record.dialect}: {report.entries} "
        f"entries, {report.writes} writes ({report.fua_writes} with FUA), "
        f"{report.flushes} flushes, {len(report.marks)} marks"
    )
    if report.record.log is not None:
        return
    for number, name in enumerate(report.marks[:_MARKS_SHOWN], 1):
        say(f"  mark {number}: {printable(name)}")
    if (more := len(report.marks) - _MARKS_SHOWN) > 0:
        say(f"  and {more} more")
    if (checks := report.record.checks) is not None:
        say(f"each state: {checks.told(report.record.filesystem)}")


def _verify(directory: Path, *, json_file: Path | None) -> int:
    """Judges it again: as `_tell`, or, of a log whose states are checked, as `_explore`."""
    from powercut.recording.open_recording import find_recording
    from powercut_extras.logs.imports import read_import

    if read_import(find_recording(directory)).checks is None:
        return _tell(directory, json_file=json_file)
    return _explore_for(directory, _BUDGET, json_file)


def _explore_for(directory: Path, budget: str, json_file: Path | None) -> int:
    """As `powercut explore` does, with its progress."""
    words = ["explore", str(directory.resolve()), "--budget", budget]
    words += [] if json_file is None else ["--json", str(json_file)]
    return cast(int, cli.main(words, standalone_mode=False))


def _explore(
    directory: Path, wanted: ExploreRequest, *, on_event: Listener, json_file: Path | None
) -> int:
    """Checks the crash states of an imported log; returns the exit status, as above."""
    from powercut.crash.states import Model
    from powercut.recording.open_recording import find_recording
    from powercut_extras.logs.explore import explore_import as run
    from powercut_extras.logs.imports import read_import

    say = Speaker(json_file)
    trial = find_recording(directory)
    trial.check_seal()
    # `exact` is what is meant if nobody says otherwise; of records no log carries that.
    if wanted.model is Model.EXACT and read_import(trial).checks is None:
        wanted = replace(wanted, model=Model.EPOCH)
    explored = run(trial, wanted, on_event=on_event)
    readings = {"certain": explored.certain, "cautious": explored.cautious}
    say(f"engine: {explored.certain.engine}")
    for name, reading in readings.items():
        if reading is not None and reading.coverage.distinct:
            for line in _told(name, reading, explored.marks):
                say(line)
    say(f"{explored.verdict.name} in the {wanted.model.value} model")
    for why in explored.reasons:
        say(f"  {why}")
    told = {
        "model": wanted.model.value,
        "verdict": explored.verdict.name.lower(),
        "reasons": list(explored.reasons),
        "lost": {
            name: [list(one) for one in _lost(reading)]
            for name, reading in readings.items()
            if reading is not None
        },
    }
    write_json_object("import-explored", told, json_file)
    return {Verdict.SAFE: 0, Verdict.LOSSY: 1}.get(explored.verdict, 3)


def _told(name: str, found: ExploreResult, marks: Sequence[str]) -> Iterator[str]:
    """What one reading came to, in lines."""
    from powercut_extras.logs.marks import names_of

    covered, lost = found.coverage, _lost(found)
    yield (
        f"{name} reading: {covered.distinct:,} distinct states of 2^{covered.legal_log2:.1f} legal "
        f"ones ({found.model} model) at {covered.instants:,} of {covered.instants_all:,} instants"
    )
    if marks:
        what = f"; marks that are not kept: {names_of(marks, lost)}" if lost else ""
        yield f"  {covered.lossy} are not as promised{what}"
    else:
        yield f"  {covered.lossy} lose something: {LsnRange.text_of(lost)}"
    for finding in found.findings:
        if finding.verdict is Verdict.LOSSY:
            first = finding.examples[0]
            yield f"  in {finding.states:,} states {first.message}"
            yield f"  the first of them: {first.id}"


def _lost(found: ExploreResult) -> tuple[LsnRange, ...]:

    lossy = (one for one in found.findings if one.verdict is Verdict.LOSSY)
    return lsn_ranges({lsn for one in lossy for span in one.lsns for lsn in span})


def _write(
    recording: Path, output: Path, say: Speaker, *, sector: str, as_seen: bool
) -> dict[str, Any]:
    """A flush that the disk ignored becomes a mark, so that a replay up to any place holds what
    the disk had kept by then."""
    from powercut.recording.open_recording import open_disk
    from powercut_extras.logs.imports import as_kept
    from powercut_extras.logs.logs import export_log
    from powercut_extras.logs.marks import claims_of

    opened = open_disk(recording)
    if opened.imported:
        raise UsageError(f"{recording}: was imported: its log is there already, in log.dmlw")
    if opened.timeline.disks:
        raise UsageError(
            f"{recording}: is of several disks, and such a log has no flush of one of them",
            hint="--format state writes crash states",
        )
    timeline = opened.timeline if as_seen else as_kept(opened.timeline)
    made = export_log(timeline, claims_of(opened), output, sector_size=int(sector))
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
    filesystem: str | None,
    mount: str | None,
    check: str | None,
    program: str | None,
    folder: str,
    budget: str,
    **sizes: int | str,
) -> int:
    if base is None:
        raise UsageError(
            f"{source}: not a bundle",
            hint="to import a log of dm-log-writes or blklogwrites add --base IMAGE, the disk "
            "as it was before logging began",
        )
    from powercut_extras.logs.imports import import_recording, report_import
    from powercut_extras.logs.logs import Dialect

    checks = _checks(filesystem, mount, check, program, folder, layout)
    made = import_recording(
        source,
        base=base,
        output=output,
        dialect=Dialect(dialect),
        layout=_layout(run_id, layout, sizes),
        checks=checks,
        filesystem=filesystem or "",
        atomic_unit=atomic_unit,
        salvage=salvage,
        closed=closed,
        no_fua=no_fua,
    )
    if checks is None:
        return _tell(made.path, judge=layout is not None, json_file=json_file)
    _summarise(made.path, report_import(made), Speaker(json_file))
    return _explore_for(made.path, budget, json_file)


def _checks(
    filesystem: str | None,
    mount: str | None,
    check: str | None,
    program: str | None,
    inside: str,
    layout: str | None,
) -> LogChecks | None:
    """What the options ask of each state; None if nothing."""
    from powercut.workload.program.workload import find_program
    from powercut_extras.logs.checks import LogChecks

    if not (filesystem or mount or check or program):
        return None
    if check and program:
        raise UsageError(
            "--check and --check-program: a log is asked one of them",
            hint="--check speaks of marks by their names, --check-program of marks `ack N`",
        )
    if layout is not None:
        raise UsageError(
            "--layout is for the records of powercut's own workload, which has a reader",
            hint="leave out --filesystem, --mount and --check, or --run-id and --layout",
        )
    options = tuple(option for option in (mount or "").split(",") if option)
    if not (command := check or program):
        return LogChecks(mount=options)
    try:
        found = find_program(words_of(command))
    except ValueError as error:
        raise UsageError(f"--check: {error}") from None
    return LogChecks(
        mount=options,
        command=found.command,
        program=bool(program),
        folder=found.folder,
        inside=inside.strip("/"),
    )


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

    import_options: Sequence[Any] = (
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
            default=4096,
            show_default=True,
            help="Bytes that the disk is trusted not to tear; the log does not say.",
        ),
        click.option(
            "--salvage", is_flag=True, help="Take what stands before the damage in the log."
        ),
        click.option("--closed", is_flag=True, help="QEMU was shut down cleanly (qemu only)."),
        click.option("--no-fua", is_flag=True, help="The guest's disk never got FUA (qemu only)."),
        click.option(
            "--filesystem",
            type=click.Choice(["xfs", "ext4", "btrfs", "f2fs"]),
            help="Of a log: mount each state, and have the file system's own checker look at it.",
        ),
        click.option("--mount", metavar="OPTIONS", help="Mount options, with commas."),
        click.option(
            "--check",
            metavar="COMMAND",
            help="Also called with the folder of each state, and with the name of the last mark in "
            "POWERCUT_MARK: 0 if it finds what that mark promised, else 1 to 125.",
        ),
        click.option(
            "--check-program",
            "program",
            metavar="COMMAND",
            help="Instead of --check: marks `ack N` are acks, and the program's check judges.",
        ),
        click.option(
            "--folder",
            default="",
            metavar="PATH",
            help="The folder in its file system that a check gets; by default all of it.",
        ),
        budget_option(_BUDGET, "Of a log that is checked: a time, or a number of states."),
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
    export_options: Sequence[Any] = (
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
    verify = staticmethod(_verify)
    explore = staticmethod(_explore)
    write = staticmethod(_write)


LOGS: Final[ForeignLogs] = Logs()
