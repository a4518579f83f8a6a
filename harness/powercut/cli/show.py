# SPDX-License-Identifier: Apache-2.0
"""`powercut show`: explains a result, a recording, a bundle or a certificate."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from powercut.cli import completion
from powercut.cli.folder_states import refuse_others
from powercut.cli.imported import analyze_import
from powercut.cli.lookup import Evidence, certificate_file, evidence_of, find_result
from powercut.cli.options import EVIDENCE_HELP, evidence_argument, json_option
from powercut.cli.output import Speaker, console_beside, write_json


@click.command(epilog=EVIDENCE_HELP)
@evidence_argument
@click.option(
    "--cell",
    shell_complete=completion.cells,
    help="The cell to explain; by default every one that is not SAFE.",
)
@click.option("--trial", type=click.IntRange(1), help="Its trial; by default the worst.")
@json_option("what is kept of it")
def show(evidence: Path, cell: str | None, trial: int | None, json_file: Path | None) -> int:
    """Explains a result, recording, bundle or certificate; nothing is judged again.

    What was acknowledged, what came back, and what happened when.
    """
    kind = evidence_of(evidence)
    if kind is not Evidence.RESULT:
        refuse_others(("json_file",), f"a {kind.name.lower()}", hint="leave it out")
    if kind is Evidence.RESULT:
        _show_result(evidence, cell, trial, json_file)
    elif kind is Evidence.CERTIFICATE:
        from powercut.report.terminal.certify import print_certificate
        from powercut.store.certify_order import read_certificate

        found = read_certificate(certificate_file(evidence))
        print_certificate(console_beside(json_file), found)
        write_json(found.model_dump_json(indent=1), json_file)
    elif kind is Evidence.IMPORT:
        analyze_import(evidence, json_file=json_file)
    elif kind is Evidence.BUNDLE:
        _show_bundle(evidence, json_file)
    else:
        _show_capture(evidence, json_file)
    return 0


def _show_result(
    evidence: Path, cell: str | None, trial: int | None, json_file: Path | None
) -> None:
    from powercut.report.terminal.show import print_story

    found = find_result(evidence)
    print_story(console_beside(json_file), found, cell=cell, trial=trial)
    if json_file is not None:
        write_json(found.read_verdict().model_dump_json(indent=1), json_file)


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
