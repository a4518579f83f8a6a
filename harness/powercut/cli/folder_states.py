# SPDX-License-Identifier: Apache-2.0
"""What `explore`, `minimize`, `shell` and `export` do with a captured folder."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from powercut.cli.capture import exit_status
from powercut.cli.output import Speaker, console_beside, echo, write_json
from powercut.model.errors import UsageError

PROMISES = ("journal", "posix")


def refuse_others(
    own: Collection[str],
    what: str = "a captured folder",
    hint: str = "leave it out; docs/captured-folders.md has what there is",
) -> None:
    """Raises UsageError if an option was given that says nothing of `what`."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        given = context.get_parameter_source(name) is not ParameterSource.DEFAULT
        if given and isinstance(parameter, click.Option) and name not in (*own, "run_check"):
            raise UsageError(
                f"{parameter.opts[0]} says nothing of {what}",
                hint=hint,
            )


def explore_capture(
    recording: Path,
    *,
    policies: Sequence[str],
    at: Sequence[str],
    budget: str,
    jobs: int | None,
    seed: int,
    depth: int,
    promise: str | None,
    json_file: Path | None,
) -> int:
    """Looks at more states of a captured folder; exit status as that of `capture`."""
    from powercut.campaign.folder import progress_text
    from powercut.campaign.folder_states import explore_folder
    from powercut.crash.explore import InstantKind
    from powercut.crash.folder_rows import Promise
    from powercut.crash.order import ALL_POLICIES
    from powercut.explore.request import Budget, ExploreRequest
    from powercut.report.publish import write_recording_page
    from powercut.report.terminal.folder import print_capture
    from powercut.store.folder import CaptureDir

    own = ("policies", "at", "budget", "jobs", "seed", "depth", "promise", "json_file")
    refuse_others(own)
    directory = CaptureDir(recording.resolve())
    wanted = ExploreRequest(
        policies=tuple(policies) or ALL_POLICIES,
        at=tuple(InstantKind(name) for name in at) or tuple(InstantKind),
        budget=Budget.parse(budget),
        jobs=jobs or 1,
        seed=seed,
        confirm=False,
        depth=depth,
    )
    console = console_beside(json_file)
    with console.status("looking at crash states") as status:
        result = explore_folder(
            directory,
            wanted,
            None if promise is None else Promise(promise),
            lambda event: status.update(progress_text(event)),
        )
    write_recording_page(directory.path)
    print_capture(console, directory.read_record(), result, directory.path)
    write_json(result.model_dump_json(indent=1), json_file)
    return exit_status(result.verdict)


def minimize_capture(
    recording: Path,
    state: str | None,
    *,
    lsn: int | None,
    budget: str,
    promise: str | None,
    json_file: Path | None,
) -> int:
    """Finds the fewest lost writes that still lose something, and the files they belong to."""
    from powercut.campaign.folder_states import minimize_capture as search
    from powercut.crash.folder_rows import Promise
    from powercut.explore.request import Budget
    from powercut.report.publish import write_recording_page
    from powercut.report.terminal.folder import print_folder_witness
    from powercut.store.folder import CaptureDir

    refuse_others(("lsn", "budget", "promise", "json_file"))
    directory = CaptureDir(recording.resolve())
    console = console_beside(json_file)
    with console.status("checking states") as status:
        witness = search(
            directory,
            state,
            operation=lsn,
            budget=Budget.parse(budget),
            promise=None if promise is None else Promise(promise),
            progress=lambda tests, left: status.update(
                f"{tests} states checked, {left} losses left to tell apart"
            ),
        )
    write_recording_page(directory.path)
    print_folder_witness(console, witness, directory.path)
    write_json(witness.model_dump_json(indent=1), json_file)
    return 0


def materialize_capture(recording: Path, state: str, output: Path, say: Speaker) -> dict[str, Any]:
    """Writes a crash state out as a folder."""
    from powercut.campaign.folder_states import write_state
    from powercut.store.folder import CaptureDir

    refuse_others(("what", "output", "json_file"))
    made = write_state(CaptureDir(recording.resolve()), state, output)
    say(made.text)
    say(f"{made.path}: {made.files} files in {made.folders} folders, {made.size} bytes")
    return {"size": made.size, "files": made.files, "folders": made.folders}


def shell_capture(recording: Path, state: str, *, no_terminal: bool) -> int:
    """A prompt where the captured folder was, in a crash state of it."""
    from powercut.campaign.folder_states import state_folder
    from powercut.store.folder import CaptureDir

    with state_folder(CaptureDir(recording.resolve()), state) as opened:
        echo(opened.text, err=True)
        echo(
            f"{opened.folder} is the crash state, and gone at the end; all else is this host. "
            "`exit` leaves",
            err=True,
        )
        status = opened.enter(sys.stdin.read() if no_terminal else None)
    return 0 if status == 0 else 3


def bundle_capture(
    recording: Path, state: str | None, output: Path, say: Speaker, *, force: bool
) -> dict[str, Any]:
    """Makes one file of a recording, with all that was found out about it."""
    from powercut.campaign.folder_bundle import make_folder_bundle
    from powercut.store.folder import CaptureDir

    made = make_folder_bundle(CaptureDir(recording.resolve()), output, state=state, force=force)
    size = output.stat().st_size
    say(f"{output}: {size / 1e6:.1f} MB, {len(made.files)} files, the recording is {made.verdict}")
    say(f"unpack it with: powercut import {shlex.quote(str(output))} -o FOLDER")
    return {"size": size, "verdict": made.verdict}
