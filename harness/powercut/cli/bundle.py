# SPDX-License-Identifier: Apache-2.0
"""`powercut bundle` and `unbundle`: a finding as one file; `verify` judges it again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli.capture import verify_capture
from powercut.cli.folder_states import bundle_capture
from powercut.cli.lookup import is_capture
from powercut.cli.options import (
    FILE,
    OUTPUT,
    STATE_EPILOG,
    force_option,
    recording_argument,
    run_check_option,
)
from powercut.cli.output import echo, write_json

if TYPE_CHECKING:
    from powercut.campaign.bundle import BundleVerdict
    from powercut.campaign.bundle_file import BundledState


@click.command(epilog=STATE_EPILOG)
@recording_argument
@click.argument("state", required=False)
@click.option("-o", "--output", type=OUTPUT, required=True, help="The bundle to write.")
@force_option
@run_check_option
def bundle(recording: Path, state: str | None, output: Path, force: bool) -> int:
    """Makes one file of a finding; `verify` judges it again anywhere.

    Without STATE the witness goes with it, if `minimize` has found one.
    """
    if is_capture(recording):
        return bundle_capture(recording, state, output, force=force)
    from powercut.campaign.bundle import make_bundle

    made = make_bundle(recording, output, state=state, force=force)
    size = output.stat().st_size
    echo(f"{output}: {size / 1e6:.1f} MB, {len(made.files)} files, the recording is {made.verdict}")
    if made.state is not None:
        _echo_state(made.state)
    echo(f"reproduce it with: powercut verify {output}")
    return 0


@click.command()
@click.argument("file", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, help="Where to; a new folder.")
def unbundle(file: Path, output: Path) -> int:
    """Unpacks a bundle, to look at its recording with the other commands."""
    from powercut.campaign.bundle import unpack

    made = unpack(file, output)
    if made.kind == "capture":
        echo(f"{output}: {made.cell}")
        return 0
    echo(f"{output / made.recording}: {made.scenario}, {made.cell}, trial {made.trial}")
    return 0


def _echo_state(state: BundledState, *, err: bool = False) -> None:
    """What became of a bundled state; which engine recovered it, if not the fastest."""
    echo(f"state {state.name}: {state.verdict}: {state.message}", err=err)
    if state.engine_reason:
        echo(f"  engine: {state.engine}, since {state.engine_reason}", err=err)


def verify_bundle(path: Path, json_file: Path | None) -> int:
    """Judges a bundle again and prints what it says; returns the exit status."""
    from powercut.campaign.bundle import unpacked, verify_unpacked
    from powercut.campaign.bundle_file import CAPTURE

    with unpacked(path) as (manifest, root):
        if manifest.kind == CAPTURE:
            return verify_capture(root, json_file)
        judged = verify_unpacked(path, manifest, root)
    return _print_judged(judged, json_file)


def _print_judged(judged: BundleVerdict, json_file: Path | None) -> int:
    from powercut.console import PlainConsole
    from powercut.report.terminal.table import print_run

    to_stdout = json_file == Path("-")
    print_run(PlainConsole(stderr=to_stdout), judged.run)
    if judged.state is not None:
        _echo_state(judged.state, err=to_stdout)
    for line in judged.differences:
        echo(f"DIFFERS: {line}", err=to_stdout)
    for line in judged.untried:
        echo(f"not repeated: {line}", err=to_stdout)
    if not judged.differences and not judged.untried:
        echo("Everything in the bundle is judged as when it was made.", err=to_stdout)
    write_json(judged.model_dump_json(indent=1), json_file)
    return judged.exit_status
