# SPDX-License-Identifier: Apache-2.0
"""A group of commands, from a table and of extras; one is imported when it is named, and what takes
time to import when it runs.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import click

from powercut.model.extras import loaded, registered

_NEAR = 3
_ALIKE = 0.5


class LazyGroup(click.Group):
    """`table` has each command's module and attribute by its name; `extras` is the group of entry
    points that has more of them.
    """

    def __init__(
        self, *arguments: Any, table: Mapping[str, str], extras: str = "", **options: Any
    ) -> None:
        super().__init__(*arguments, **options)
        self.table = table
        self._extras = extras

    @cached_property
    def more(self) -> Mapping[str, str]:
        """The commands of extras; none has the name of one that is here."""
        found = registered(self._extras) if self._extras else {}
        return {name: place for name, place in found.items() if name not in self.table}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        del ctx
        return sorted((*self.table, *self.more))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name; None if there is none.  Raises HostError for a broken extra."""
        del ctx
        if cmd_name in self.table:
            module, _, attribute = self.table[cmd_name].partition(":")
            command = getattr(importlib.import_module(module), attribute)
        elif cmd_name in self.more:
            command = loaded(self.more[cmd_name])
        else:
            return None
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's; for a name that there is not it says which are near."""
        if not ctx.resilient_parsing and args and not args[0].startswith("-"):
            name = args[0]
            if name not in self.table and name not in self.more:
                names = self.list_commands(ctx)
                near = difflib.get_close_matches(name, names, n=_NEAR, cutoff=_ALIKE)
                said = f" Did you mean {', '.join(near)}?" if near else ""
                raise click.UsageError(f"No such command {name!r}.{said}", ctx)
        return super().resolve_command(ctx, args)
