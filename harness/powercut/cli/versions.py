# SPDX-License-Identifier: Apache-2.0
"""The options that put versions beside each other: `--qemu` and `--kernel`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from powercut.model.versions import GUEST, HOST, SUITES

if TYPE_CHECKING:
    from powercut.scenario.load import Scenario

Command = TypeVar("Command", bound=Callable[..., Any])

_SUITES = ", ".join(SUITES)


def version_options(command: Command) -> Command:
    """Decorator for the commands that take versions; the arguments are `qemus` and `kernels`."""
    for name, argument, usual, what in (
        ("--kernel", "kernels", GUEST, "guest kernel"),
        ("--qemu", "qemus", HOST, "QEMU"),
    ):
        text = f"A {what} to run each cell on: {usual}, a path, or a Debian suite ({_SUITES})."
        option = click.option(
            name, argument, multiple=True, metavar="VERSION", help=f"{text}  May be repeated."
        )
        command = option(command)
    return command


def at_versions(
    scenarios: Iterable[Scenario], qemus: Sequence[str], kernels: Sequence[str]
) -> list[Scenario]:
    """The scenarios with these versions as axes.  Raises UsageError for one that is none."""
    from powercut.scenario.axes import with_axes

    axes = {
        "machine.qemu": [_absolute(qemu) for qemu in qemus],
        "machine.kernel": [_absolute(kernel) for kernel in kernels],
    }
    return [with_axes(scenario, axes) for scenario in scenarios]


def _absolute(version: str) -> str:
    """A path may be relative on the command line; what is kept of it is not."""
    return str(Path(version).absolute()) if "/" in version else version
