# SPDX-License-Identifier: Apache-2.0
"""Which engine explores a recording, and how many of them at the same time."""

from __future__ import annotations

import os

from powercut.model.errors import UsageError
from powercut.model.machine import ImageFormat
from powercut.recover.uml.engine import unavailable
from powercut.rig import commands
from powercut.scenario.settings import Parameters


def choose_engine(parameters: Parameters, name: str, *, after: int = 0, depth: int = 0) -> str:
    """The engine that `auto` means for recordings of a cell; others as they are called.

    Raises UsageError if `name` cannot do it.
    """
    image_format = parameters.machine.format
    if image_format is not ImageFormat.RAW:
        if name in ("auto", "guest"):
            return "guest"
        raise UsageError(
            f"the disk lies in a {image_format.value} image: only QEMU can open it",
            hint="--engine guest",
        )
    raw = commands.is_raw(parameters)
    if raw and name in ("auto", "raw"):
        if after or depth:
            raise UsageError(
                "the log lies on the device itself: its recovery reads it and writes nothing, so "
                "there is no life after it that could go wrong, and nothing to be cut in it",
                hint="leave out --after and --depth for this recording",
            )
        return "raw"
    if raw:
        raise UsageError(
            f"the log lies on the device itself: there is nothing to mount for engine {name}",
            hint="--engine raw",
        )
    if name == "raw":
        raise UsageError(
            "engine raw reads logs on a raw device, and this one lies in a file system",
            hint="--engine uml, or guest",
        )
    if name != "auto":
        return name
    return "guest" if unavailable() else "uml"


def jobs_by_default() -> int:
    """Engines that this host can keep busy."""
    return max(1, len(os.sched_getaffinity(0)))
