# SPDX-License-Identifier: Apache-2.0
"""Machines that are there already, as the settings of machines that are like them.

An extra's `powercut.definitions` is called with `name`, `definition` and `connect`, of which one of
the first two is not None, and returns a Likeness; it raises UsageError for what makes no sense.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class DiskLikeness:
    """A disk of a machine that is there, by its name in it, and the settings of a machine whose
    disk under test is like it."""

    name: str
    settings: Mapping[str, object]


@dataclass(frozen=True)
class LeftOut:
    """What a definition says and no machine made here has: whose and what, and why."""

    what: str
    why: str


@dataclass(frozen=True)
class Likeness:
    """How to make machines like one that is there; `differs` says in sentences what is another
    machine's anyway, `left_out` has words of the definition, `disks_left_out` whole disks."""

    machine: str
    disks: tuple[DiskLikeness, ...]
    differs: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    disks_left_out: tuple[LeftOut, ...] = ()

    @property
    def slug(self) -> str:
        """A name for a scenario of it: small letters, digits and hyphens."""
        words = re.sub(r"[^a-z0-9]+", "-", self.machine.lower()).strip("-")
        return f"domain-{words or 'unnamed'}"
