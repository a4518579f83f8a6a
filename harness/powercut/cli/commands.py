# SPDX-License-Identifier: Apache-2.0
"""The table of commands; a command is imported when it is named."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import click

from powercut import __version__
from powercut.cli.lazy_group import LazyGroup
from powercut.model.errors import HostError, UsageError
from powercut.paths import INSTALLED

COMMANDS = {
    "bench": "powercut.cli.bench:bench",
    "capture": "powercut.cli.capture:capture",
    "doctor": "powercut.cli.doctor:doctor",
    "explore": "powercut.cli.explore:explore",
    "export": "powercut.cli.export:export",
    "import": "powercut.cli.import_:import_",
    "init": "powercut.cli.init:init",
    "list": "powercut.cli.list:list_",
    "minimize": "powercut.cli.minimize:minimize",
    "record": "powercut.cli.record:record",
    "run": "powercut.cli.run:run",
    "shell": "powercut.cli.shell:shell",
    "show": "powercut.cli.show:show",
    "test": "powercut.cli.test:test",
    "try": "powercut.cli.try_:try_",
    "verify": "powercut.cli.verify:verify",
}
"""Each command of the core by its name: module and attribute."""

_LINE = 58
"""How long a line of the summary may be."""

CONTRIBUTORS = ("bench",)
"""What serves those who work on powercut itself: `--help` has it in a checkout alone."""


class BrokenPipe(Exception):
    """A pipe or a socket whose other end is gone; its cause says which call."""


@contextmanager
def _broken_pipes() -> Iterator[None]:
    """click would exit with 1 for one, which claims that a verdict differs."""
    try:
        yield
    except BrokenPipeError as error:
        raise BrokenPipe from error


class CommandTable(LazyGroup):
    """The group of all commands."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """As click's: --help is printed here."""
        with _broken_pipes():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command, unless there is no folder that relative paths begin at."""
        try:
            Path.cwd()
        except FileNotFoundError:
            raise UsageError(
                "the current folder has been removed", hint="cd to a folder that is there"
            ) from None
        with _broken_pipes():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names that a user needs."""
        return [name for name in super().list_commands(ctx) if _shown(name)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A section for each need, and a line for each command."""
        names = self.list_commands(ctx)
        widest = max(map(len, names))
        told = {name for lines in SECTIONS.values() for name in lines}
        others = {name: _line(self, ctx, name) for name in names if name not in told}
        for title, lines in (*SECTIONS.items(), ("More", others)):
            shown = [(name.ljust(widest), said) for name, said in lines.items() if name in names]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)


def _line(group: click.Group, ctx: click.Context, name: str) -> str:
    try:
        command = group.get_command(ctx, name)
    except HostError:
        return "Cannot be used: `powercut doctor` says why"
    return "" if command is None else command.get_short_help_str(_LINE)


def _shown(name: str) -> bool:
    return not INSTALLED or name not in CONTRIBUTORS


@click.group(
    cls=CommandTable,
    table=COMMANDS,
    extras="powercut.commands",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__)
def cli() -> None:
    """Cuts the power under a running system and proves which acknowledged writes survived.

    Exit status: 0 all as expected; 1 a verdict differs from what was expected; 2 a
    mistake on the command line or in a scenario; 3 inconclusive, or trouble with this
    host.
    """


# What `powercut --help` says of each command: a line, in the order in which one needs them.

SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Test a stack": {
        "try": "Tests that your program keeps what it acknowledges",
        "run": "Runs scenarios: records, cuts the power, judges",
        "record": "Tests your own program, without a virtual machine",
        "capture": "Tests any program on files that are recorded",
        "listen": "Listens to a workload anywhere, and judges it",
        "certify": "Makes a certificate: which settings keep writes",
        "probe": "Measures whether a folder's syncs can be true",
    },
    "Read results": {
        "show": "Explains a result, recording, bundle or certificate",
        "verify": "Judges one again, from its evidence",
        "serve": "Shows all results in a browser on this host",
        "history": "Shows what changed between runs and certificates",
    },
    "Look into a recording": {
        "audit": "Says which acks, flushes and syncs matter, and the cost",
        "explore": "Recovers other disks that a cut could have left",
        "minimize": "Finds the fewest lost writes that lose a record",
        "reproduce": "Writes a loss as a program for the store's maintainers",
        "shell": "Opens a prompt with a crash state mounted",
        "export": "Writes a bundle, a crash state or a log of requests",
        "import": "Reads a bundle or a log of another tool",
    },
    "Set up": {
        "doctor": "Says what this host can do, and what to install",
        "init": "Writes a first scenario, a test and CI recipes here",
        "list": "Lists scenarios, or presets of products",
        "test": "Runs pytest with powercut's plugin",
        "completion": "Completes commands and options in your shell",
        "bench": "Measures powercut itself",
    },
}
"""By section: commands and their lines, of at most 58 characters."""
