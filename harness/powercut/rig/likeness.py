# SPDX-License-Identifier: Apache-2.0
"""A scenario for the disks of a machine that is there."""

from __future__ import annotations

import io

from ruamel.yaml import YAML
from ruamel.yaml.scalarstring import LiteralScalarString

from powercut.machine.port import KnowsMachines, Likeness
from powercut.model.errors import UsageError
from powercut.rig.rig import Rig

_KNOWS: str = "libvirt"
_FILE_SYSTEMS = ("raw", "ext4")


def likeness_of(name: str | None, definition: str | None, connect: str | None) -> Likeness:
    """What machines are like the one called `name`, or the one that a text defines."""
    backend = Rig().backend(_KNOWS)
    if not isinstance(backend, KnowsMachines):
        raise UsageError(f"{_KNOWS} knows of no machines")
    if definition is not None:
        return backend.likeness_of(definition, connect)
    assert name is not None
    return backend.likeness(name, connect)


def scenario_like(likeness: Likeness) -> str:
    """The scenario: each disk under a raw log and under a file system, with controls."""
    cells = []
    for disk in likeness.disks:
        for system in _FILE_SYSTEMS:
            settings = {f"machine.{key}": _value(value) for key, value in disk.settings.items()}
            cells.append({"name": f"{disk.name}-{system}", "filesystem.type": system, **settings})
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
    return "".join(f"# {line}\n" for line in heading) + text.getvalue()


def _value(value: object) -> object:
    return LiteralScalarString(value) if isinstance(value, str) and "<" in value else value
