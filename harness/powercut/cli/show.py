# SPDX-License-Identifier: Apache-2.0
"""`powercut show`: explains a result, a recording, a bundle or a certificate."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli import completion
from powercut.cli.extras import foreign_logs
from powercut.cli.lookup import Evidence, certificate_file, evidence_of, find_result, find_trials
from powercut.cli.options import EVIDENCE_HELP, FILE, evidence_argument, json_option, refuse_others
from powercut.cli.output import Speaker, console_beside, echo, write_json
from powercut.model.errors import UsageError

if TYPE_CHECKING:
    from powercut.store.results import RunResult


@click.command(epilog=EVIDENCE_HELP)
@evidence_argument
@click.option(
    "--cell",
    shell_complete=completion.cells,
    help="The cell to explain; by default every one that is not SAFE.",
)
@click.option("--trial", type=click.IntRange(1), help="Its trial; by default the worst.")
@click.option(
    "--html",
    "html_file",
    type=FILE,
    metavar="FILE",
    help="Write its page here: one file, which needs no server. Of a recording it has the time "
    "line, of a run the report.",
)
@json_option("what is kept of it")
def show(
    evidence: Path,
    cell: str | None,
    trial: int | None,
    html_file: Path | None,
    json_file: Path | None,
) -> int:
    """Explains a result, recording, bundle or certificate; nothing is judged again.

    What was acknowledged, what came back, and what happened when.
    """
    kind = evidence_of(evidence)
    if html_file is not None:
        _write_page(evidence, kind, cell, trial, html_file)
        return 0
    if kind is not Evidence.RESULT:
        refuse_others(("json_file",), f"a {kind.name.lower()}", hint="leave it out")
    if kind is Evidence.RESULT:
        _show_result(evidence, cell, trial, json_file)
    elif kind is Evidence.CERTIFICATE:
        from powercut.report.certificates import certificates

        certificates().show(certificate_file(evidence), json_file)
    elif kind is Evidence.IMPORT:
        foreign_logs().tell(evidence, json_file=json_file)
    elif kind is Evidence.BUNDLE:
        _show_bundle(evidence, json_file)
    else:
        _show_capture(evidence, json_file)
    return 0


def _write_page(
    evidence: Path, kind: Evidence, cell: str | None, trial: int | None, target: Path
) -> None:
    """The page of a recording, if `evidence` is one alone, else that of a run or certificate."""
    from powercut.report.publish import recording_page
    from powercut.store.files import write_atomic

    if kind is Evidence.BUNDLE:
        raise UsageError(
            f"{evidence}: a bundle has no page", hint="`powercut import` unpacks it first"
        )
    if kind is Evidence.CERTIFICATE:
        from powercut.report.certificates import certificates

        text = certificates().page(certificate_file(evidence))
    elif kind in (Evidence.CAPTURE, Evidence.IMPORT):
        text = recording_page(evidence.resolve())
    elif (
        cell is None
        and (evidence / "verdict.json").is_file()
        and not (evidence / "trial.json").is_file()
    ):
        from powercut.report.page.run import html_report

        found = find_result(evidence)
        text = html_report(found, found.read_verdict())
    else:
        text = recording_page(_trial_of(evidence, cell, trial))
    write_atomic(target, text.encode())
    echo(f"written: {target}")


def _trial_of(evidence: Path, cell: str | None, trial: int | None) -> Path:
    if cell is not None:
        found = find_result(evidence).path / "cells" / cell
        evidence = found / f"{trial:04}" if trial is not None else found
    trials = find_trials(evidence)
    if len(trials) > 1:
        listed = ", ".join(str(one.path.name) for one in trials[:8])
        raise UsageError(
            f"{evidence}: {len(trials)} recordings are in this folder",
            hint=f"give one: --cell CELL --trial N, or its folder ({listed})",
        )
    return trials[0].path


def _show_result(
    evidence: Path, cell: str | None, trial: int | None, json_file: Path | None
) -> None:
    found = find_result(evidence)
    if cell is None:
        cell, trial = _meant(found.path.resolve() / "cells", evidence.resolve(), trial)
    console = console_beside(json_file)
    if cell is None and found.ended and _all_safe(run := found.read_verdict()):
        from powercut.report.terminal.table import print_run

        print_run(console, run)  # there is no story, and what tells one takes long to import
    else:
        from powercut.report.terminal.show import print_story

        print_story(console, found, cell=cell, trial=trial)
    if json_file is not None:
        write_json(found.read_verdict().model_dump_json(indent=1), json_file)


def _all_safe(run: RunResult) -> bool:
    from powercut.model.verdict import Verdict

    return all(cell.verdict is Verdict.SAFE for cell in run.cells)


def _meant(cells: Path, evidence: Path, trial: int | None) -> tuple[str | None, int | None]:
    """The cell and the trial whose folder `evidence` is, below the folder of the run's cells."""
    if cells not in evidence.parents:
        return None, trial
    name, *number = evidence.relative_to(cells).parts
    if trial is None and number and number[0].isdecimal():
        trial = int(number[0])
    return name, trial


def _show_capture(folder: Path, json_file: Path | None) -> None:
    from powercut.report.terminal.folder import print_capture, print_recorded
    from powercut.store.folder import CaptureDir

    directory = CaptureDir(folder.resolve())
    record, result = directory.read_record(), directory.find_result()
    console = console_beside(json_file)
    if result is None:
        print_recorded(console, record, directory.path)
        write_json(record.model_dump_json(indent=1), json_file)
    else:
        print_capture(console, record, result, directory.path)
        write_json(result.model_dump_json(indent=1), json_file)


def _show_bundle(path: Path, json_file: Path | None) -> None:
    """What it says of itself, and what to verify it would run of this host."""
    from powercut.campaign.bundle import unpacked
    from powercut.campaign.bundle_file import CAPTURE
    from powercut.recording.consent import foreign_commands
    from powercut.store.folder import CaptureDir
    from powercut.store.layout import ResultDir

    say = Speaker(json_file)
    with unpacked(path) as (manifest, root):
        if manifest.kind == CAPTURE:
            check = CaptureDir(root).read_record().check
            commands: tuple[str, ...] = (shlex.join(check),) if check else ()
        else:
            commands = foreign_commands(ResultDir(root).trials())
    say(f"{path}: {manifest.scenario}, {manifest.cell}, trial {manifest.trial}: {manifest.verdict}")
    if manifest.state is not None:
        say(f"  state {manifest.state.name}: {manifest.state.verdict}: {manifest.state.message}")
    say(f"  {len(manifest.files)} files, made by powercut {manifest.powercut}")
    for command in commands:
        say(f"  verifying it runs: {command}")
    write_json(manifest.model_dump_json(indent=1), json_file)
