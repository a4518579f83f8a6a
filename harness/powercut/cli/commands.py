# SPDX-License-Identifier: Apache-2.0
"""The table of commands.  A command is imported when it is called, and imports what takes time when
it runs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from powercut import __version__
from powercut.cli.summary import SECTIONS

COMMANDS = {
    "analyze": "powercut.cli.analyze:analyze",
    "audit": "powercut.cli.audit:audit",
    "bench": "powercut.cli.bench:bench",
    "bundle": "powercut.cli.bundle:bundle",
    "cache": "powercut.cli.cache:cache",
    "capture": "powercut.cli.capture:capture",
    "check-program": "powercut.cli.check_program:check_program",
    "certificate": "powercut.cli.certificate:certificate",
    "certify": "powercut.cli.certify:certify",
    "cost": "powercut.cli.cost:cost",
    "doctor": "powercut.cli.doctor:doctor",
    "explore": "powercut.cli.explore:explore",
    "export": "powercut.cli.export:export",
    "fetch": "powercut.cli.fetch:fetch",
    "history": "powercut.cli.history:history",
    "hosts": "powercut.cli.hosts:hosts",
    "init": "powercut.cli.init:init",
    "import": "powercut.cli.import_:import_",
    "listen": "powercut.cli.listen:listen",
    "manual": "powercut.cli.manual:manual",
    "materialize": "powercut.cli.materialize:materialize",
    "minimize": "powercut.cli.minimize:minimize",
    "mutate-syncs": "powercut.cli.mutate_syncs:mutate_syncs",
    "plan": "powercut.cli.plan:plan",
    "presets": "powercut.cli.presets:presets",
    "probe": "powercut.cli.probe:probe",
    "record": "powercut.cli.record:record",
    "run": "powercut.cli.run:run",
    "scenarios": "powercut.cli.list:scenarios",
    "serve": "powercut.cli.serve:serve",
    "shell": "powercut.cli.shell:shell",
    "show": "powercut.cli.show:show",
    "test": "powercut.cli.test:test",
    "try": "powercut.cli.try_:try_",
    "unbundle": "powercut.cli.bundle:unbundle",
    "verify": "powercut.cli.verify:verify",
}
"""Each command by its name: module and attribute."""


class BrokenPipe(Exception):
    """A pipe or a socket whose other end is gone; its cause says which call."""


@contextmanager
def _broken_pipes() -> Iterator[None]:
    """click would exit with 1 for one, which claims that a verdict differs."""
    try:
        yield
    except BrokenPipeError as error:
        raise BrokenPipe from error


class CommandTable(click.Group):
    """The group of all commands; it imports one when it is named."""

    def make_context(self, *arguments: Any, **options: Any) -> click.Context:
        """As click's: --help is printed here."""
        with _broken_pipes():
            return super().make_context(*arguments, **options)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command."""
        with _broken_pipes():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, as --help shows them."""
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None if there is none."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A section for each need, and a line for each command."""
        del ctx
        widest = max(len(name) for name in COMMANDS)
        for title, lines in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(widest), said) for name, said in lines.items()])


@click.group(cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Cuts the power under a running system and proves which acknowledged writes survived.

    Exit status: 0 all as expected; 1 a verdict differs from what was expected; 2 a
    mistake on the command line or in a scenario; 3 inconclusive, or trouble with this
    host.
    """
