# SPDX-License-Identifier: Apache-2.0
"""`powercut export`: a recording, or one crash state of it, for use elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from powercut.cli.extras import foreign_logs, with_options
from powercut.cli.lookup import is_capture
from powercut.cli.options import (
    FILE,
    STATE_EPILOG,
    force_option,
    json_option,
    recording_argument,
    refuse_others,
    run_check_option,
    state_argument,
)
from powercut.cli.output import Speaker, write_json_object
from powercut.cli.works_on import require_works_on
from powercut.model.errors import UsageError
from powercut.paths import as_word

if TYPE_CHECKING:
    from powercut.campaign.bundle_file import BundledState

BUNDLE, STATE, LOG = "bundle", "state", "dm-log-writes"
_FORMATS = (BUNDLE, STATE, LOG)
_OWN = {"what", "output", "json_file"}
_TAKEN = {
    BUNDLE: _OWN | {"force"},
    STATE: _OWN | {"force"},
    LOG: _OWN | {"sector", "as_seen"},
}


@click.command(epilog=STATE_EPILOG)
@recording_argument
@state_argument(required=False)
@click.option(
    "--format",
    "what",
    type=click.Choice(_FORMATS),
    default=BUNDLE,
    show_default=True,
    help="bundle: the finding as one file, which `powercut verify` judges again anywhere. state: "
    "the disk of STATE as an image file; of a captured folder, a new folder. dm-log-writes: the "
    "requests as a log for replay-log and its like.",
)
@click.option("-o", "--output", type=FILE, required=True, help="The file or folder to write.")
@force_option
@with_options(foreign_logs, "export_options")
@run_check_option
@json_option("what was written")
def export(
    recording: Path,
    state: str | None,
    what: str,
    output: Path,
    force: bool,
    json_file: Path | None,
    **of_a_log: object,
) -> int:
    """Writes a recording as a bundle or a log, or one crash state of it as an image.

    A bundle includes the crash state STATE; without STATE the witness, if `minimize` has found one.
    """
    refuse_others(_TAKEN[what], f"--format {what}", hint="leave it out")
    if what == STATE and state is None:
        raise UsageError("--format state needs a STATE", hint="give one, such as `cut`")
    if what == LOG and state is not None:
        raise UsageError("a log holds all requests and takes no STATE", hint="--format state")
    require_works_on(f"export --format {what}", recording)
    if output.is_dir() and not (what == STATE and is_capture(recording)):
        raise UsageError(f"{output}: is a folder", hint="give the name of a file")
    say = Speaker(json_file)
    if what == LOG:
        made = foreign_logs().write(recording, output, say, **of_a_log)
    elif what == BUNDLE:
        made = _bundle(recording, state, output, say, force=force)
    else:
        made = _state(recording, str(state), output, say, force=force)
    write_json_object("export", {"kind": what, "path": str(output), **made}, json_file)
    return 0


def _bundle(
    recording: Path, state: str | None, output: Path, say: Speaker, *, force: bool
) -> dict[str, Any]:
    from powercut.campaign.bundle import make_bundle

    made = make_bundle(recording, output, state=state, force=force)
    size = output.stat().st_size
    say(f"{output}: {size / 1e6:.1f} MB, {len(made.files)} files, the recording is {made.verdict}")
    if made.kind == "capture":
        say(f"unpack it with: powercut import {as_word(output)} -o FOLDER")
        return {"size": size, "verdict": made.verdict}
    if made.state is not None:
        say_state(made.state, say)
    say(f"reproduce it with: powercut verify {as_word(output)}")
    return {"size": size, "verdict": made.verdict}


def say_state(state: BundledState, say: Speaker) -> None:
    """What became of a bundled state; which engine recovered it, if not the fastest."""
    say(f"state {state.name}: {state.verdict}: {state.message}")
    if state.engine_reason:
        say(f"  engine: {state.engine}, since {state.engine_reason}")


def _state(
    recording: Path, state: str, output: Path, say: Speaker, *, force: bool
) -> dict[str, Any]:
    from powercut.campaign.folder import write_state
    from powercut.recording.folder import FolderRecording
    from powercut.recording.materialize import materialize
    from powercut.recording.open_recording import open_recording
    from powercut.recording.state_names import resolve_state, state_text

    opened = open_recording(recording, state=state)
    chosen = resolve_state(opened, state)
    if isinstance(opened, FolderRecording):
        refuse_others(("what", "output", "json_file"))
        folder = write_state(opened, chosen, output)
        say(state_text(opened, chosen))
        say(f"{output}: {folder.files} files in {folder.folders} folders, {folder.size} bytes")
        return {"size": folder.size, "files": folder.files, "folders": folder.folders}
    made = materialize(opened, chosen, output, force=force)
    say(f"{opened.title}\n{state_text(opened, chosen)}")
    say.gaps(opened.gaps)
    say(f"{made.path}: {made.size} bytes, SHA-256 {made.sha256}")
    return {"size": made.size, "sha256": made.sha256}
