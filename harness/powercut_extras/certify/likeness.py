# SPDX-License-Identifier: Apache-2.0
"""A scenario for the disks of a machine that is there."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import cast

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from powercut.model.errors import UsageError
from powercut.model.extras import provided
from powercut.model.printable import printable
from powercut.scenario.likeness import LeftOut, Likeness
from powercut.scenario.place import OF_A_MACHINE
from powercut.scenario.refusal_several import NAMELESS
from powercut.scenario.settings_several import DISK_NAME, DISKS_MAX

_FILE_SYSTEMS = ("raw", "ext4")
_SIZE = "64MiB"
_RECORD_KIB = 16
"""Of a record, for each disk: so few records lie on all disks, whose stripes have 64 KiB."""

_OF_A_FORMAT = ("format", "grows")
_NAMELESS = tuple(bus.value for bus in NAMELESS)


def likeness_here(name: str | None, definition: str | None, connect: str | None) -> Likeness:
    """What machines are like the one called `name`, or the one that a text defines.

    Raises UsageError, HostError.
    """
    if (reads := provided("powercut.definitions")) is not None:
        return cast(Likeness, reads(name, definition, connect))
    raise UsageError("no extra that reads definitions of machines is installed")


def scenario_like(likeness: Likeness) -> str:
    """The scenario: each disk under a raw log and under a file system, with controls; and all of
    them together, if there are several."""
    cells = []
    for disk in likeness.disks:
        for system in _FILE_SYSTEMS:
            settings = {f"machine.{key}": _value(value) for key, value in disk.settings.items()}
            cells.append({"name": f"{disk.name}-{system}", "filesystem.type": system, **settings})
    cells += _together(likeness)
    document = {
        "powercut": 1,
        "name": likeness.slug,
        "description": f"The disks of {likeness.machine}, as its definition has them.",
        "cells": cells,
    }
    text = io.StringIO()
    yaml = YAML()
    yaml.width = 100
    yaml.dump(document, text)
    heading = [f"What is like {likeness.machine}, and what is not:", *likeness.differs]
    left_out = (*likeness.disks_left_out, *left_out_of(likeness))
    heading += [printable(f"left out: {one.what}: {one.why}") for one in left_out]
    return "".join(f"# {line}\n" for line in heading) + text.getvalue()


def why_apart(likeness: Likeness) -> str:
    """Why several disks are not cut at one instant; empty if they are, or if there is one."""
    if len(likeness.disks) + len(likeness.disks_left_out) < 2:
        return ""
    if likeness.disks_left_out:
        return "one of them is not tested"
    alone = [disk.name for disk in likeness.disks if disk.settings["bus"] in _NAMELESS]
    if alone:
        return f"{alone[0]} does not tell the guest which of several it is"
    return f"they are more than {DISKS_MAX}" if len(likeness.disks) > DISKS_MAX else ""


def left_out_of(likeness: Likeness) -> tuple[LeftOut, ...]:
    """Its settings that are left out, and that its disks are tested apart, if they are."""
    apart = why_apart(likeness)
    together = (LeftOut("all disks, cut at one instant", apart),) if apart else ()
    return (*likeness.left_out, *together)


def _together(likeness: Likeness) -> list[dict[str, object]]:
    """The cell of all disks, which lose their power at one instant: a log in stripes over them.

    Each keeps what it is reached by; none holds an image format.
    """
    first, *others = likeness.disks
    if not others or why_apart(likeness):
        return []
    machine = {
        f"machine.{key}": _value(value)
        for key, value in first.settings.items()
        if key not in _OF_A_FORMAT
    }
    names = _names([disk.name for disk in likeness.disks])
    also = [
        {"name": name, "size": _SIZE, "holds": "stripe"}
        | {key: _value(disk.settings[key]) for key in OF_A_MACHINE if key in disk.settings}
        for name, disk in zip(names[1:], others, strict=True)
    ]
    return [
        {
            "name": "all-disks",
            "description": "A log in stripes over all disks, cut at one instant.",
            "filesystem.type": "ext4",
            "workload.record": f"{_RECORD_KIB * len(likeness.disks)}KiB",
            "disk.size": _SIZE,
            "disk.name": names[0],
            "disk.also": also,
            **machine,
        }
    ]


def _names(given: Sequence[str]) -> list[str]:
    """What disks are called in a scenario, each by another name."""
    words = [re.sub("[^a-z0-9]+", "-", name.lower()).strip("-") for name in given]
    fit = all(re.fullmatch(DISK_NAME, word) for word in words) and len(set(words)) == len(words)
    return words if fit else [f"disk{number}" for number in range(len(words))]


def _value(value: object) -> object:
    return LiteralScalarString(value) if isinstance(value, str) and "<" in value else value
