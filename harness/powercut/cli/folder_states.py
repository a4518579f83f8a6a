# SPDX-License-Identifier: Apache-2.0
"""What `explore` does with a captured folder, and what other verbs refuse of one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from powercut.cli.capture import exit_status
from powercut.cli.output import console_beside, write_json
from powercut.model.errors import UsageError

if TYPE_CHECKING:
    from powercut.crash.folder_rows import Promise

PROMISES = ("journal", "posix")


def promise_named(name: str | None) -> Promise | None:
    """The promise of that name; None without one."""
    from powercut.crash.folder_rows import Promise

    return None if name is None else Promise(name)


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
    from powercut.crash.order import ALL_POLICIES
    from powercut.explore.request import Budget, ExploreRequest
    from powercut.recording.folder import open_capture
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
        recorded = open_capture(directory, promise_named(promise))
        result = explore_folder(
            recorded,
            wanted,
            lambda event: status.update(progress_text(event)),
        )
    write_recording_page(directory.path)
    print_capture(console, directory.read_record(), result, directory.path)
    write_json(result.model_dump_json(indent=1), json_file)
    return exit_status(result.verdict)
