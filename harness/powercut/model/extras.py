# SPDX-License-Identifier: Apache-2.0
"""Extras: what they register by entry points, imported when it is asked for.

The groups, and what an entry point of each is:

    powercut.commands, .commands.audit, .commands.doctor   a click command, of its own name
    powercut.certificates  shows and verifies certificates (powercut.report.certificates)
    powercut.clusters    opens what `--cluster` names (powercut.cli.extras)
    powercut.definitions reads definitions of machines (powercut.scenario.likeness)
    powercut.doctor      a line of `powercut doctor` (powercut.doctor.host)
    powercut.importers   reads and writes logs of other tools (powercut.cli.extras)
    powercut.machines    a MachineRow (powercut.scenario.machines)
    powercut.pages       makes the page of a recording (powercut.report.publish)
    powercut.pictures    draws what it knows of a recording into that page
    powercut.recordings  opens a recording; its name is that of a file in the recording's folder
    powercut.schemas     a model of pydantic's, whose schema docs/schema has by its name
    powercut.suites      programs of Debian suites (powercut.machine.suites)

docs/adding-an-extra.md walks through an extra.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from powercut.model.errors import HostError


@functools.cache
def registered(group: str) -> Mapping[str, str]:
    """What extras have in that group: by its name the module and the attribute, `module:attribute`.

    Nothing of an extra is imported.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - 50 ms that few commands need

    return {one.name: one.value for one in entry_points(group=group)}


def loaded(place: str) -> Any:
    """What an extra has registered.  Raises HostError where the extra is broken."""
    module, _, attribute = place.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever an extra does wrong ends no other command
        raise HostError(
            f"{module}: this extra cannot be used: {type(error).__name__}: {error}",
            hint="install it again, or uninstall it: everything else works without it",
        ) from error


def provided(group: str) -> Any:
    """What fills that group, of several extras the first; None where none does.

    Raises HostError where the extra is broken.
    """
    return next((loaded(place) for place in registered(group).values()), None)
