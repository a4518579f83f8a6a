# SPDX-License-Identifier: Apache-2.0
"""The command line.  It parses, calls, prints, and picks the exit status.

Exit status: 0 all as expected; 1 a verdict differs from what was expected; 2 a mistake
on the command line or in a scenario; 3 inconclusive, or trouble with this host (also a
bug in powercut); 130 interrupted.

A command is imported when it is called, and imports what takes time when it runs.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import threading
import traceback

import click

from powercut import __version__
from powercut.cli.output import INTERRUPTED, TROUBLE, echo
from powercut.cli.summary import SECTIONS
from powercut.model.errors import PowercutError
from powercut.paths import NOT_WRITABLE

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
    "unbundle": "powercut.cli.bundle:unbundle",
    "verify": "powercut.cli.verify:verify",
}
"""Each command by its name: module and attribute."""

NO_ROOM = "TMPDIR=/var/tmp, --results for results"


class CommandTable(click.Group):
    """The group of all commands; it imports one when it is named."""

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


def main() -> None:
    """Runs the command line and exits."""
    try:
        status = cli.main(prog_name="powercut", standalone_mode=False)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        status = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        echo("interrupted", err=True)
        _leave_at_once()
        status = INTERRUPTED
    except PowercutError as error:
        echo(f"powercut: {error}", err=True)
        if error.hint:
            echo(f"hint: {error.hint}", err=True)
        status = error.exit_status
    except BrokenPipeError:
        # Whoever read the output has gone; Python must not complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = TROUBLE
    except Exception as error:  # status 1 would claim that a verdict differs
        _say_unexpected(error)
        status = TROUBLE
    sys.exit(status)


def _leave_at_once() -> None:
    """Ends the process if threads are still at work, for which the interpreter would wait.

    What they were making is not sealed; their children end with this process.
    """
    if threading.active_count() > 1:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(INTERRUPTED)


def _say_unexpected(error: Exception) -> None:
    """A folder that is full or may not be written to is the host's; all else is a bug of ours."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        place = error.filename2 or error.filename or "a file"
        echo(f"powercut: {place}: {error.strerror}; nothing was proved", err=True)
        echo(f"hint: make room there, or have scratch files elsewhere: {NO_ROOM}", err=True)
        return
    if isinstance(error, OSError) and error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        echo(f"powercut: {error.filename}: {error.strerror}; nothing was proved", err=True)
        echo(f"hint: {NOT_WRITABLE}", err=True)
        return
    traceback.print_exc()
    echo("powercut: this is a bug in powercut; nothing was proved", err=True)


@click.group(cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
def cli() -> None:
    """Cuts the power under a running system and proves which acknowledged writes survived.

    Exit status: 0 all as expected; 1 a verdict differs from what was expected; 2 a
    mistake on the command line or in a scenario; 3 inconclusive, or trouble with this
    host.
    """


if __name__ == "__main__":
    main()
