# SPDX-License-Identifier: Apache-2.0
"""Options and arguments that several commands take, each once."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from powercut.cli import completion
from powercut.model.errors import UsageError
from powercut.model.named_path import openable, shown
from powercut.model.printable import words_of
from powercut.model.versions import GUEST, HOST, SUITES, UML_SUITES
from powercut.paths import RESULTS

if TYPE_CHECKING:
    from powercut.campaign.confidence import Aim
    from powercut.crash.folder_rows import Promise

Command = TypeVar("Command", bound=Callable[..., Any])


class NamedPath(click.Path):
    """A path of which nothing is wrong that the system can say before the work begins."""

    def __init__(self, *, special: bool = False, **options: Any) -> None:
        """It may be a pipe or a character device if it may be `special`."""
        super().__init__(path_type=Path, **options)
        self._special = special

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As click's."""
        text = os.fspath(value)
        if not text:
            self.fail("the name is empty", param, ctx)
        try:
            with suppress(FileNotFoundError):  # some are made, others are missed by their verb
                Path(text).stat()
            if not self._special:
                openable(Path(text))
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            self.fail(f"{shown(text)!r}: {why}", param, ctx)
        return super().convert(value, param, ctx)


FILE = NamedPath()
OUTPUT = NamedPath(special=True, dir_okay=False)
"""A file to write: a folder is refused before the work, not after it."""


class _Words(click.types.StringParamType):
    """A command line in one string."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return words_of(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


WORDS = _Words()

SCENARIO_HELP = (
    "SCENARIO is a file, a folder of them, or a name: that of a file in scenarios/ of this folder, "
    "or of one that powercut brings (`powercut list scenarios` lists them)."
)
RESULT_HELP = (
    "RECORDING is the folder of a result, of a cell in it, or of a trial: for example "
    "results/first-light/latest, or results/first-light/latest/cells/lying/0001."
)
RECORDING_HELP = (
    "RECORDING is the folder of a trial, such as results/first-light/latest/cells/lying/0001, or "
    "of a run that has only one."
)
STATE_HELP = (
    "STATE is `cut`, `durable@T`, `everything@T`, `medium@T`, `flush:N`, `ack:LSN`, or the "
    "identifier of a state that `explore` or `minimize` found. T is nanoseconds of the "
    "recording's clock, or with a unit (such as 12.5ms) the time since the first attempt, as "
    "`show` prints it. Of a captured folder: durable@T, everything@T, ack:N or an identifier; "
    "T may be `cut`."
)
EVIDENCE_HELP = (
    "EVIDENCE is the folder of a result or of a trial (results/first-light/latest), of a captured "
    "folder's recording (results/capture/...), of an imported log or of a certificate; a bundle; "
    "or a certificate.json."
)
STATE_EPILOG = f"{RECORDING_HELP} {STATE_HELP}"

_CHANCE = click.FloatRange(0, 1, min_open=True, max_open=True)

scenarios_argument = click.argument(
    "scenarios", nargs=-1, metavar="[SCENARIO]...", shell_complete=completion.scenarios
)
evidence_argument = click.argument("evidence", type=FILE)
recording_argument = click.argument("recording", type=FILE)


def state_argument(*, required: bool) -> Callable[[Command], Command]:
    """Decorator: STATE, the argument is `state`."""
    return click.argument("state", required=required, shell_complete=completion.states)


seed_option = click.option(
    "--seed", type=click.IntRange(0, 2**63 - 1), help="Seed of every random choice."
)
only_option = click.option(
    "--only",
    multiple=True,
    metavar="CELL",
    shell_complete=completion.cells,
    help="Only cells of this name; a glob will do.",
)
trials_option = click.option(
    "--trials",
    type=click.IntRange(1, 1_000_000),
    help="Trials of each cell, instead of what the scenario says.",
)


class _Folder(NamedPath):
    """Where results are kept: tools and logs get the name, some of them as a line."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not str(value).isprintable():
            self.fail(f"{str(value)!r} has characters that cannot be printed", param, ctx)
        return super().convert(value, param, ctx)


RESULTS_FOLDER = _Folder()
results_option = click.option(
    "--results", type=RESULTS_FOLDER, default=RESULTS, help="Where results are kept."
)
confidence_option = click.option(
    "--confidence",
    type=_CHANCE,
    metavar="P",
    help="Repeat cells that are expected to be SAFE until --at-most is shown with this confidence, "
    "such as 0.999.",
)
at_most_option = click.option(
    "--at-most",
    type=_CHANCE,
    metavar="P",
    help="Upper bound on the loss probability that --confidence is to show, by default 0.01.",
)
preset_option = click.option(
    "--preset",
    "presets",
    multiple=True,
    metavar="NAME",
    shell_complete=completion.presets,
    help="A product's default, and its remedy; `powercut list presets` names them.  Repeatable.",
)
engine_option = click.option(
    "--engine",
    type=click.Choice(["auto", "raw", "uml", "guest"]),
    default="auto",
    show_default=True,
    help="What recovers the states; auto takes the fastest that works here.",
)
recovery_kernel_option = click.option(
    "--recovery-kernel",
    metavar="VERSION",
    default=HOST,
    show_default=True,
    help="Which User-Mode Linux recovers the states: the host's (for a program with a "
    f"workload.kernel, that one), that of a Debian suite ({', '.join(UML_SUITES)}), or a path.",
)
promise_option = click.option(
    "--promise",
    type=click.Choice(["journal", "posix"]),
    help="Of a captured folder: what the host promises of names, instead of what its verdict has.",
)
cluster_option = click.option(
    "--cluster",
    metavar="CLUSTER",
    help="Spread the work over a Dask cluster: local (all processors of this host), "
    "tcp://HOST:PORT, tls://HOST:PORT, or its scheduler file (docs/many-hosts.md).",
)
force_option = click.option("--force", is_flag=True, help="Replace the file if it is there.")


def _run_check(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    del parameter
    if value:
        from powercut.recording.consent import run_checks

        context.with_resource(run_checks())


run_check_option = click.option(
    "--run-check",
    is_flag=True,
    expose_value=False,
    callback=_run_check,
    help="Run what a recording from elsewhere names: a program's check, a hypervisor given by its "
    "path. Read it first; without this option it is not run.",
)


def _places(
    context: click.Context, parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...]:
    del context, parameter
    from powercut.scenario.settings_program import is_place

    try:
        return tuple(map(is_place, value))
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


scratch_option = click.option(
    "--scratch",
    multiple=True,
    metavar="PATH",
    callback=_places,
    help="A place outside of DIR that no promise rests on, such as /tmp/cache; may be given "
    "several times. The verdict says nothing of what is left there.",
)
root_seed_option = click.option(
    "--seed",
    type=click.IntRange(0, 2**63 - 1),
    default=0,
    show_default=True,
    help="Seed of every random choice.",
)


def budget_option(usual: str, what: str) -> Callable[[Command], Command]:
    """Decorator: `--budget`, for `powercut.explore.request.Budget`; `what` says of what."""
    return click.option("--budget", default=usual, show_default=True, help=what)


def atomic_unit_option(what: str, usual: str | None = None) -> Callable[[Command], Command]:
    """Decorator: `--atomic-unit`, a word; None where it is left out and nothing is `usual`."""
    units = click.Choice(["1", "512", "4096"])
    shown = usual is not None
    return click.option("--atomic-unit", type=units, default=usual, show_default=shown, help=what)


def seconds_option(
    name: str, usual: float, what: str, *, least: float = 1, most: float = 3600
) -> Callable[[Command], Command]:
    """Decorator: a time in seconds, as a deadline is."""
    allowed = click.FloatRange(least, most)
    return click.option(name, type=allowed, default=usual, show_default=True, help=what)


def jobs_option(
    what: str, *, usual: int | None = None, most: int = 256, shown: bool = False
) -> Callable[[Command], Command]:
    """Decorator: `--jobs`; `what` says what is done in parallel."""
    allowed = click.IntRange(1, most)
    return click.option("--jobs", type=allowed, default=usual, show_default=shown, help=what)


def depth_option(when: str) -> Callable[[Command], Command]:
    """Decorator: `--depth`; `when` each further cut comes."""
    what = f"Further cuts, each {when} the cut before."
    return click.option(
        "--depth", type=click.IntRange(0, 8), default=0, show_default=True, help=what
    )


def json_option(what: str) -> Callable[[Command], Command]:
    """Decorator: `--json FILE`, the argument is `json_file`; `what` is written there."""
    return click.option(
        "--json", "json_file", type=OUTPUT, help=f"Write {what} here; - for stdout."
    )


def version_options(command: Command) -> Command:
    """Decorator for the commands that take versions; the arguments are `qemus` and `kernels`."""
    suites = ", ".join(SUITES)

    @functools.wraps(command)
    def with_modules(
        *words: object, kernels: Sequence[str], modules: Path | None, **named: object
    ) -> object:
        return command(*words, kernels=built(kernels, modules), **named)

    result: Callable[..., Any] = click.option(
        "--modules",
        type=NamedPath(exists=True, file_okay=False),
        help="Where `make modules_install INSTALL_MOD_PATH=DIR` has put the modules of the "
        "bzImage or vmlinux that --kernel names.",
    )(with_modules)
    for name, argument, usual, what in (
        ("--kernel", "kernels", GUEST, "guest kernel"),
        ("--qemu", "qemus", HOST, "QEMU"),
    ):
        text = f"A {what} to run each cell on: {usual}, a path, or a Debian suite ({suites})."
        option = click.option(
            name, argument, multiple=True, metavar="VERSION", help=f"{text}  May be repeated."
        )
        result = option(result)
    return cast(Command, result)


def built(kernels: Sequence[str], modules: Path | None) -> Sequence[str]:
    """The kernels; a single one with its `modules`, if these are given.

    Raises UsageError, or HostError if they do not belong to it.
    """
    if modules is None:
        return kernels
    if len(kernels) != 1 or "/" not in kernels[0]:
        raise UsageError(
            "--modules goes with one --kernel, which is a path",
            hint="--kernel ./arch/x86/boot/bzImage --modules DIR",
        )
    from powercut.machine.guest.kernel_source import with_modules

    return (str(with_modules(Path(kernels[0]).absolute(), modules.absolute())),)


def confidence_aim(
    confidence: float | None, at_most: float | None, trials: int | None
) -> Aim | None:
    """What `--confidence` and `--at-most` ask for; None without them.  Raises UsageError."""
    if confidence is None and at_most is not None:
        raise UsageError("--at-most says nothing without --confidence")
    if confidence is not None and trials is not None:
        raise UsageError("--confidence and --trials both say how many: give one of them")
    if confidence is None:
        return None
    from powercut.campaign.confidence import AT_MOST, Aim

    return Aim(confidence, AT_MOST if at_most is None else at_most)


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
