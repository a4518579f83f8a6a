# SPDX-License-Identifier: Apache-2.0
"""Commands for what a person does with one recording, and with a finding in it.

Like powercut.cli.main they parse, call and print; whatever takes time to import is imported
by the command that needs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.model.errors import UsageError

if TYPE_CHECKING:
    from powercut.recording.imports import LogLayout

FILE = click.Path(path_type=Path)
STATE_HELP = (
    "STATE is `cut`, `durable@T`, `everything@T`, `medium@T`, `flush:N`, `ack:LSN`, or the "
    "identifier of a state that `explore` or `minimize` found. T is nanoseconds of the "
    "recording's clock, or with a unit (such as 12.5ms) the time since the first attempt, as "
    "`show` prints it."
)
RECORDING_HELP = (
    "RECORDING is the folder of a trial, such as results/first-light/latest/cells/lying/0001, or "
    "of a run that has only one."
)

_recording = click.argument("recording", type=FILE)
_epilog = f"{RECORDING_HELP} {STATE_HELP}"


@click.command(epilog=_epilog)
@_recording
@click.argument("state")
@click.option("-o", "--output", type=FILE, required=True, help="The image to write.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
def materialize(recording: Path, state: str, output: Path, force: bool) -> int:
    """Writes the disk that a crash state is, as an image file."""
    from powercut.recording import materialize as run

    opened = run.open_recording(recording)
    chosen = run.resolve_state(opened, state)
    made = run.materialize(opened, chosen, output, force=force)
    click.echo(f"{opened.title}\n{run.state_text(opened, chosen)}")
    _echo_gaps(opened.gaps)
    click.echo(f"{made.path}: {made.size} bytes, SHA-256 {made.sha256}")
    return 0


@click.command(epilog=_epilog)
@_recording
@click.argument("state", required=False)
@click.option("--lsn", type=click.IntRange(1), help="The record that must stay lost.")
@click.option(
    "--budget",
    type=click.IntRange(1, 1_000_000),
    default=2000,
    show_default=True,
    help="States to recover at most.",
)
@click.option(
    "--confirm/--no-confirm",
    default=True,
    show_default=True,
    help="Recover the witness in a guest with the recorded kernel, too.",
)
def minimize(
    recording: Path, state: str | None, lsn: int | None, budget: int, confirm: bool
) -> int:
    """Finds the smallest set of lost writes that still loses a record, and explains it."""
    from rich.console import Console

    from powercut.recording.materialize import open_recording
    from powercut.report.terminal.witness import print_witness
    from powercut.store.witness import write_witness
    from powercut.witness.minimize import minimize as search

    opened = open_recording(recording)
    console = Console()
    with console.status("booting the recovery engine") as status:
        witness = search(
            opened,
            state,
            lsn=lsn,
            budget=budget,
            confirm=confirm,
            progress=lambda tests, left: status.update(
                f"{tests} states recovered, {left} losses left to tell apart"
            ),
        )
    write_witness(opened.directory, witness)
    print_witness(console, witness, opened.directory.path)
    return 0


@click.command(epilog=_epilog)
@_recording
@click.argument("state")
def shell(recording: Path, state: str) -> int:
    """Boots a guest with a crash state mounted, and a prompt on its console."""
    from powercut.recording.materialize import open_recording, resolve_state, state_text
    from powercut.recording.shell import LEAVE, open_shell

    opened = open_recording(recording)
    chosen = resolve_state(opened, state)
    click.echo(f"{opened.title}: {state_text(opened, chosen)}\nbooting; {LEAVE}", err=True)
    status = open_shell(opened, chosen)
    return 0 if status == 0 else 3


@click.command(epilog=_epilog)
@_recording
@click.argument("state", required=False)
@click.option("-o", "--output", type=FILE, required=True, help="The bundle to write.")
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
def bundle(recording: Path, state: str | None, output: Path, force: bool) -> int:
    """Makes one file of a finding; `verify` judges it again anywhere.

    Without STATE the witness goes with it, if `minimize` has found one.
    """
    from powercut.campaign.bundle import make_bundle

    made = make_bundle(recording, output, state=state, force=force)
    size = output.stat().st_size
    click.echo(
        f"{output}: {size / 1e6:.1f} MB, {len(made.files)} files, the recording is {made.verdict}"
    )
    if made.state is not None:
        click.echo(f"state {made.state.name}: {made.state.verdict}: {made.state.message}")
    click.echo(f"reproduce it with: powercut verify {output}")
    return 0


@click.command()
@click.argument("file", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, help="Where to; a new folder.")
def unbundle(file: Path, output: Path) -> int:
    """Unpacks a bundle, to look at its recording with the other commands."""
    from powercut.campaign.bundle import unpack

    made = unpack(file, output)
    click.echo(f"{output / made.recording}: {made.scenario}, {made.cell}, trial {made.trial}")
    return 0


def is_bundle(path: Path) -> bool:
    """Whether `path` is a bundle and not a folder."""
    if not path.is_file():
        return False
    from powercut.campaign.bundle import is_bundle as begins_as_one

    return begins_as_one(path)


def verify_bundle(path: Path, json_file: Path | None) -> int:
    """Judges a bundle again and prints what it says; returns the exit status."""
    from rich.console import Console

    from powercut.campaign.bundle import verify_bundle as judge_again
    from powercut.report.terminal.table import print_run
    from powercut.store.files import write_atomic

    found = judge_again(path)
    to_stdout = json_file == Path("-")
    print_run(Console(stderr=to_stdout), found.run)
    if found.state is not None:
        state = found.state
        click.echo(f"state {state.name}: {state.verdict}: {state.message}", err=to_stdout)
    for line in found.differences:
        click.echo(f"DIFFERS: {line}", err=to_stdout)
    for line in found.untried:
        click.echo(f"not repeated: {line}", err=to_stdout)
    if not found.differences and not found.untried:
        click.echo("Everything in the bundle is judged as when it was made.", err=to_stdout)
    if json_file is not None:
        text = found.model_dump_json(indent=1) + "\n"
        if to_stdout:
            click.echo(text, nl=False)
        else:
            write_atomic(json_file, text.encode())
    return found.exit_status


@click.command(epilog=RECORDING_HELP)
@_recording
@click.option(
    "--format",
    "log_format",
    type=click.Choice(["dm-log-writes"]),
    default="dm-log-writes",
    help="The format of the log.",
)
@click.option("-o", "--output", type=FILE, required=True, help="The log to write; a new file.")
@click.option(
    "--sector", type=click.Choice(["512", "4096"]), default="512", help="Bytes of its sectors."
)
@click.option(
    "--as-seen", is_flag=True, help="Of a disk that lies: as the stack above it believed it."
)
def export(recording: Path, log_format: str, output: Path, sector: str, as_seen: bool) -> int:
    """Writes a recording as a log for replay-log and its like.

    A flush that the disk ignored becomes a mark, so that a replay up to any place holds
    what the disk had kept by then.
    """
    from powercut.disk.logwrites.logs import export_log
    from powercut.recording.imports import as_kept
    from powercut.recording.materialize import open_recording

    opened = open_recording(recording)
    if opened.imported:
        raise UsageError(
            f"{recording}: was imported: its log is there already", hint=f"see {recording}/log.dmlw"
        )
    timeline = opened.timeline if as_seen else as_kept(opened.timeline)
    made = export_log(timeline, opened.history, output, sector_size=int(sector))
    click.echo(
        f"{output}: {log_format}, {made.entries} entries, {made.flushes} flushes, "
        f"{made.marks} marks, {made.size} bytes"
    )
    if made.left_out:
        click.echo(f"left out: {made.left_out} writes that never completed, or failed")
    if not opened.timeline.contract.honest:
        told = "as the stack above it believed it" if as_seen else "without what it ignored"
        click.echo(f"the disk lied: this log is {told}")
    click.echo(f"base image: {opened.base}")
    return 0


@click.command("import")
@click.argument("log", type=FILE)
@click.option("--base", type=FILE, required=True, help="The disk as it was before logging began.")
@click.option("-o", "--output", type=FILE, required=True, help="The recording; a new folder.")
@click.option(
    "--dialect",
    type=click.Choice(["auto", "kernel", "qemu"]),
    default="auto",
    help="Who wrote the log: the kernel's dm-log-writes or QEMU's blklogwrites.",
)
@click.option("--atomic-unit", type=click.IntRange(1, 1 << 20), default=512, show_default=True)
@click.option("--salvage", is_flag=True, help="Take what stands before the damage in the log.")
@click.option("--closed", is_flag=True, help="QEMU ended in order (qemu only).")
@click.option("--no-fua", is_flag=True, help="The guest's disk never got FUA (qemu only).")
@click.option("--run-id", help="Of the WAL workload, 32 hexadecimal digits.")
@click.option("--layout", help="Of its log: append, prealloc, prewritten, recycled, segments, raw.")
@click.option("--record", type=int, default=512, show_default=True, help="Bytes of a record.")
@click.option("--align", type=int, default=0, show_default=True)
@click.option("--capacity", type=int, default=0, show_default=True)
@click.option("--segment", type=int, default=0, show_default=True)
@click.option("--offset", type=int, default=0, help="Where a raw log begins on the disk.")
@click.option("--path", "inside", default="log", help="The log below the root of its file system.")
def import_(
    log: Path,
    base: Path,
    output: Path,
    dialect: str,
    atomic_unit: int,
    salvage: bool,
    closed: bool,
    no_fua: bool,
    run_id: str | None,
    layout: str | None,
    **sizes: int | str,
) -> int:
    """Makes a recording of a dm-log-writes or blklogwrites log.

    Without --run-id and --layout only the requests are known: states can be materialised,
    and nothing can be judged.
    """
    from powercut.disk.logwrites.logs import Dialect
    from powercut.recording.imports import import_recording

    made = import_recording(
        log,
        base=base,
        output=output,
        dialect=Dialect(dialect),
        layout=_layout(run_id, layout, sizes),
        atomic_unit=atomic_unit,
        salvage=salvage,
        closed=closed,
        no_fua=no_fua,
    )
    return echo_import(made.path)


def echo_import(directory: Path) -> int:
    """Prints what an imported log says; returns 0, or 3 if it has doubts or is not whole."""
    from powercut.checkers.wal import ranges_text
    from powercut.recording.imports import report_import
    from powercut.recording.open_recording import find_recording

    found = report_import(find_recording(directory))
    click.echo(
        f"{directory}: {found.record.source}, dialect {found.record.dialect}: {found.entries} "
        f"entries, {found.writes} writes ({found.fua_writes} with FUA), {found.flushes} flushes, "
        f"{found.marks} marks"
    )
    if found.record.log is not None:
        click.echo(f"acknowledged: {found.acked} records")
        click.echo(f"acknowledged too early, for certain: {ranges_text(found.exposed)}")
        click.echo(f"acknowledged too early, perhaps: {ranges_text(found.perhaps)}")
        click.echo(f"{found.verdict.name}" + "".join(f"\n  {why}" for why in found.reasons))
    else:
        _echo_gaps(found.reasons)
    return 3 if found.doubts or not found.complete else 0


def is_import(path: Path) -> bool:
    """Whether `path` is the folder of an imported log."""
    return (path / "import.json").is_file()


def analyze_import(directory: Path) -> int:
    """Prints which records of an imported log were acknowledged too early; exit status.

    1 LOSSY, 3 INCONCLUSIVE, 0 SAFE: nobody said what to expect of a foreign log.
    """
    from powercut.model.verdict import Verdict
    from powercut.recording.imports import report_import
    from powercut.recording.open_recording import find_recording

    echo_import(directory)
    verdict = report_import(find_recording(directory)).verdict
    return {Verdict.SAFE: 0, Verdict.LOSSY: 1}.get(verdict, 3)


def explore_import(
    directory: Path, *, model: str, states: int | None, seconds: float | None
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
    found = run(trial, model=chosen, limit=states, seconds=seconds)
    for name, reading in (("certain", found.certain), ("cautious", found.cautious)):
        click.echo(f"{name} reading: {reading.coverage.text}")
        click.echo(f"  {reading.lossy} lose records: {ranges_text(reading.lost)}")
        if reading.first:
            click.echo(f"  the first of them: {reading.first}")
    click.echo(f"{found.verdict.name} in the {chosen.value} model")
    for why in found.reasons:
        click.echo(f"  {why}")
    return {Verdict.SAFE: 0, Verdict.LOSSY: 1}.get(found.verdict, 3)


def _layout(
    run_id: str | None, layout: str | None, sizes: dict[str, int | str]
) -> LogLayout | None:
    from powercut.recording.imports import LogLayout

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


def _echo_gaps(gaps: tuple[str, ...]) -> None:
    for gap in gaps:
        click.echo(f"  not known: {gap}")


COMMANDS = (materialize, minimize, shell, bundle, unbundle, export, import_)
"""What powercut.cli.main adds to its own."""
