# SPDX-License-Identifier: Apache-2.0
"""What a recorded kernel was given to do beside its program's calls (guests/common/press.c)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Pressed:
    """What was done until the cut, as the kernel's first process has counted it."""

    writebacks: int = 0
    """How often the kernel was told to write back what no sync had asked for."""

    commits: int = 0
    """How many syncs of a neighbour on the program's file systems have returned."""
