# SPDX-License-Identifier: Apache-2.0
"""Command lines that documents show, as far as they can be checked without running them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import click

from powercut.cli.commands import cli

_BLOCK = re.compile(r"^ *(?:\$ )?(?:\S*/)?powercut ([a-z].*)$", re.MULTILINE)
_SPAN = re.compile(r"`(?:\./)?powercut ([a-z][^`]*)`")
_PROSE = re.compile(r"^[^#]*[a-z]{3,}[.,:] |[.:]$|^[^#]*: [a-z]")
"""A sentence that begins with our name, in a list that is indented as blocks of code are."""


def lines_in(text: str, *, blocks: bool = True) -> Iterator[str]:
    """What follows `powercut` in code spans and, of a document, in blocks of code."""
    for found in _SPAN.finditer(text):
        yield " ".join(found[1].split())
    if blocks:
        for fence in re.findall(r"^```.*?^```|^(?:    .*\n)+", text, re.MULTILINE | re.DOTALL):
            for found in _BLOCK.finditer(fence.replace("\\\n", " ")):
                line = found[1].partition("  ")[0]  # what follows two spaces explains it
                if not _PROSE.search(line):
                    yield line


def parsed(name: str, words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Options and arguments of a command; its subcommand's, if it has them.

    Raises AssertionError for a command that there is not, click.ClickException for an option.
    """
    rest, command, options = [name, *words], cli, {}
    with click.Context(cli, info_name="powercut") as context:
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            below = command.get_command(context, rest[0])
            assert below is not None, rest[0]
            command, rest = below, rest[1:]
            with click.Context(command, info_name=command.name, parent=context) as inner:
                settings = command.context_settings
                inner.ignore_unknown_options = settings.get("ignore_unknown_options", False)
                inner.allow_interspersed_args = not isinstance(command, click.Group)
                options, rest, _ = command.make_parser(inner).parse_args(list(rest))
    return dict(options), rest


def typed(line: str) -> None:
    """Checks a line without what a shell would take.  Raises as `parsed` does."""
    words = shlex.split(re.split(r"\s+[|>&]|;", line)[0], comments=True)
    with suppress(click.BadOptionUsage):  # in prose an option is named without its value
        parsed(words[0], words[1:])
