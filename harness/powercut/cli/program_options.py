# SPDX-License-Identifier: Apache-2.0
"""The options of the commands that record anybody's program."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from powercut.cli.options import (
    WORDS,
    atomic_unit_option,
    budget_option,
    scratch_option,
    seconds_option,
)
from powercut.cli.output import console_beside, write_json_object
from powercut.model.versions import HOST, UML_SUITES

if TYPE_CHECKING:
    from powercut.scenario.program_text import RecordOptions
    from powercut.scenario.settings import ProgramSettings


class ProgramCommand(click.Command):
    """A command that ends in `-- PROGRAM`: an option that it does not know is never the program."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's; the program's own options come after `--`."""
        if other := next(filter(_is_no_text, args), ""):
            raise click.UsageError(f"{other!r} is not UTF-8, which recordings are written in", ctx)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if error.possibilities:
                raise
            own = f"{ctx.command_path} -- PROGRAM {error.option_name}"
            raise click.UsageError(
                f"{error.message} If it is the program's own: {own}", ctx
            ) from None


def _is_no_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return True
    return False


_OPTIONS: Final = (
    click.option(
        "--filesystem",
        type=click.Choice(["ext4", "xfs", "btrfs", "f2fs"]),
        default="ext4",
        show_default=True,
        help="File system that DIR is on.",
    ),
    click.option(
        "--kernel",
        type=click.Choice([HOST, *UML_SUITES]),
        default=HOST,
        show_default=True,
        help="User-Mode Linux that runs the program: the host's, or that of a Debian suite.",
    ),
    click.option("--size", default="512MiB", show_default=True, help="Size of the disk."),
    atomic_unit_option(
        "Bytes that the disk writes whole or not at all; a write tears at multiples of it.", "4096"
    ),
    click.option(
        "--disk-model",
        type=click.Choice(["none", "nvme-plp", "sata-ssd-plp", "nvme", "sata-ssd", "hdd-7200"]),
        default="none",
        show_default=True,
        help="How long a flush takes: no time, or as long as on such a disk (disk.model in "
        "docs/scenario-reference.md). `audit` then says what each flush costs.",
    ),
    click.option("--mkfs", type=WORDS, default="", help="Options for mkfs, in one string."),
    click.option("--mount", default="", help="Mount options, separated by commas."),
    click.option(
        "--acks",
        type=click.IntRange(1, 1_000_000),
        default=500,
        show_default=True,
        help="Cut after so many acknowledged operations ...",
    ),
    seconds_option("--seconds", 10.0, "... or after so long, whichever comes first.", least=0.1),
    budget_option(
        "320,90s",
        "How many crash states to recover, or how long (30s), or both; then 32 at the least.",
    ),
    seconds_option("--state-timeout", 60.0, "Deadline of one recovery with its check, in seconds."),
    seconds_option(
        "--deadline", 120.0, "Deadline of `setup`, start, cut and recovery together, in seconds."
    ),
)


env_option = click.option(
    "--env",
    multiple=True,
    metavar="NAME[=VALUE]",
    callback=lambda _context, _option, given: variables(given),
    help="A variable of the program's environment, with its value here or VALUE; may be given "
    "several times. No other reaches it.",
)
_PLACE: Final = (
    env_option,
    scratch_option,
    click.option(
        "--root",
        default="host",
        show_default=True,
        help="Files it runs on: this host's, `debian` or `debian:SUITE`, a folder, a tar, an OCI "
        "image layout or an image; all but `host` in a virtual machine, or with --where no-vm "
        "without.",
    ),
    click.option(
        "--package",
        "packages",
        multiple=True,
        metavar="NAME",
        help="A Debian package for `--root debian`; may be given several times.",
    ),
    click.option(
        "--bring", default="", help="Folder that comes into such a root with the program."
    ),
    click.option(
        "--where",
        type=click.Choice(["uml", "loop", "no-vm"]),
        default="uml",
        show_default=True,
        help="Kernel: User-Mode Linux; with root's rights this host's own (loop); no-vm: "
        "User-Mode Linux on a root of its own.",
    ),
)


_PLACE_KEYS: Final = ("env", "scratch", "root", "packages", "bring", "where")


def variables(given: Sequence[str]) -> tuple[str, ...]:
    """NAME=VALUE each; what has no value gets that of this environment."""
    whole = []
    for one in given:
        name, equals, _ = one.partition("=")
        if not equals and name not in os.environ:
            raise click.BadParameter(f"{name} is not set here; give {name}=VALUE")
        whole.append(one if equals else f"{name}={os.environ[name]}")
    return tuple(whole)


def place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the options that say what the program runs on; `command` gets them as `place`, settings
    of the workload."""

    @functools.wraps(command)
    def taken(**given: Any) -> Any:
        place = {key: given.pop(key) for key in _PLACE_KEYS}
        return command(**given, place=place)

    return functools.reduce(lambda one, option: option(one), reversed(_PLACE), taken)


dry_run_option = click.option(
    "--dry-run",
    is_flag=True,
    help="Only try setup, run and check on this host, and cut nothing: does the program keep the "
    "contract? Exit status then: 0 it does, 1 it does not.",
)


def dry_run(
    program: ProgramSettings,
    options: RecordOptions,
    seed: int | None,
    json_file: Path | None,
) -> int:
    """Tries the contract on this host, without a disk and without a cut; the exit status."""
    from powercut.rig.environment import withheld
    from powercut.scenario.settings import Parameters
    from powercut.trial.contract import try_contract
    from powercut.workload.program.workload import ProgramWorkload

    parameters = Parameters(workload=program)
    workload = ProgramWorkload(parameters)
    console, told, kept = console_beside(json_file), [], True
    for step in try_contract(workload, seed=seed or 0, seconds=options.seconds * 2):
        kept = not step.problems
        mark = "[green]✓[/]" if kept else "[red]✗[/]"
        console.print(f"{mark} ", end="")
        console.print(step.what, markup=False, highlight=False)
        for problem in step.problems:
            console.print(f"    {problem}", markup=False, highlight=False)
        told.append({"step": step.what, "problems": list(step.problems)})
    if words := withheld(parameters).words:
        console.print(f"\nNot tried: {words}", markup=False, highlight=False)
    if kept:
        command = shlex.join(program.command)
        console.print(f"\nNow cut its power: powercut try -- {command}", markup=False)
    write_json_object("contract", {"kept": kept, "steps": told}, json_file)
    return 0 if kept else 1


def recording_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the options of a recording; the argument is `options`, a RecordOptions."""

    @functools.wraps(command)
    def taken(
        *,
        filesystem: str,
        kernel: str,
        size: str,
        atomic_unit: str,
        disk_model: str,
        mkfs: tuple[str, ...],
        mount: str,
        acks: int,
        seconds: float,
        budget: str,
        state_timeout: float,
        deadline: float,
        **others: Any,
    ) -> Any:
        from powercut.scenario.program_text import RecordOptions

        options = RecordOptions(
            filesystem, size, int(atomic_unit), mkfs, mount, acks, seconds,
            budget, state_timeout, deadline, disk_model=disk_model, kernel=kernel,
        )  # fmt: skip
        return command(options=options, **others)

    for option in reversed(_OPTIONS):
        taken = option(taken)
    return taken
