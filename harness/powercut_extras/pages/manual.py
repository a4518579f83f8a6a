# SPDX-License-Identifier: Apache-2.0
"""`powercut doctor manual`: manual pages (man(7)), made of what the commands say of themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from powercut.cli.commands import cli
from powercut.cli.options import FILE
from powercut.cli.output import echo
from powercut.paths import expanded

USUAL = "~/.local/share/man/man1"
"""Where man(1) looks for pages of a user's own programs."""

_STATUS = """.SH EXIT STATUS
.TP
0
all as expected
.TP
1
a verdict differs from what was expected
.TP
2
a mistake on the command line or in a scenario
.TP
3
inconclusive, or trouble with this host
.TP
130
interrupted
"""


def manual_pages() -> dict[str, str]:
    """Each page's text by the name of its file."""
    pages = {"powercut.1": _overview()}
    with click.Context(cli, info_name="powercut") as parent:
        for name in cli.list_commands(parent):
            command = cli.get_command(parent, name)
            assert command is not None
            for words, one in _with_subcommands((name,), command):
                pages[f"powercut-{'-'.join(words)}.1"] = _page(words, one, parent)
    return pages


def _with_subcommands(
    words: tuple[str, ...], command: click.Command
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield words, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _with_subcommands((*words, name), below)


def _overview() -> str:
    lines = ["List of commands; each has a page of its own, such as powercut-run(1)."]
    parts = [_head("powercut", _first(cli)), ".SH SYNOPSIS\n.B powercut\nCOMMAND [ARGUMENT]...\n"]
    parts += [".SH DESCRIPTION\n", _text(cli.help or ""), ".SH COMMANDS\n", _text(lines[0])]
    with click.Context(cli, info_name="powercut") as context:
        for name in cli.list_commands(context):
            command = cli.get_command(context, name)
            assert command is not None
            parts.append(f".TP\n.B {_escaped(name)}\n{_escaped(_first(command))}\n")
    return "".join([*parts, _STATUS])


def _page(words: tuple[str, ...], command: click.Command, parent: click.Context) -> str:
    context = click.Context(command, info_name=" ".join(words), parent=parent)
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [_head(f"powercut-{'-'.join(words)}", _first(command))]
    parts.append(f".SH SYNOPSIS\n.B powercut {_escaped(' '.join(words))}\n{_escaped(usage)}\n")
    parts += [".SH DESCRIPTION\n", _text(command.help or "")]
    options = [
        record
        for option in command.get_params(context)
        if (record := option.get_help_record(context)) is not None and record[1]
    ]
    if options:
        parts.append(".SH OPTIONS\n")
        parts += [f".TP\n.B {_escaped(names)}\n{_escaped(said)}\n" for names, said in options]
    if command.epilog:
        parts += [".SH NOTES\n", _text(command.epilog)]
    return "".join([*parts, _STATUS])


def _head(name: str, purpose: str) -> str:
    title = name.upper()
    return (
        f'.TH {_escaped(title)} 1 "" powercut\n.SH NAME\n{_escaped(name)} \\- {_escaped(purpose)}\n'
    )


def _first(command: click.Command) -> str:
    """The first sentence of its help."""
    paragraph = " ".join((command.help or "").partition("\n\n")[0].split())
    return paragraph.rstrip(".")


def _text(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text.replace("\b", ""))
    return "".join(f".PP\n{_escaped(' '.join(part.split()))}\n" for part in paragraphs)


def _escaped(text: str) -> str:
    """`text` so that groff shows it as it is: no control line, minus signs as such."""
    text = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{text}" if text.startswith((".", "'")) else text


@click.command()
@click.argument("folder", type=FILE, default=USUAL, metavar="[FOLDER]")
def manual(folder: Path) -> int:
    """Writes a manual page for each command, by default to where man(1) finds them."""
    folder = expanded(folder)
    folder.mkdir(parents=True, exist_ok=True)
    pages = manual_pages()
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")
    echo(f"{len(pages)} pages in {folder}: man powercut, man powercut-run")
    return 0
