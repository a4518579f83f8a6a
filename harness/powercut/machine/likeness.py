# SPDX-License-Identifier: Apache-2.0
"""Machines that are there already, as the settings of machines that are like them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class DiskLikeness:
    """A disk of a machine that is there, by its name in it, and the settings of a machine whose
    disk under test is like it."""

    name: str
    settings: Mapping[str, object]


@dataclass(frozen=True)
class Likeness:
    """How to make machines like one that is there; `differs` says in sentences what stays
    different."""

    machine: str
    disks: tuple[DiskLikeness, ...]
    differs: tuple[str, ...]

    @property
    def slug(self) -> str:
        """A name for a scenario of it: small letters, digits and hyphens."""
        words = re.sub(r"[^a-z0-9]+", "-", self.machine.lower()).strip("-")
        return f"domain-{words or 'unnamed'}"


@runtime_checkable
class KnowsMachines(Protocol):
    """A backend that can be asked for machines which others have made; it only reads."""

    def likeness(self, name: str, connect: str | None) -> Likeness:
        """Of the machine called `name`.  Raises UsageError if there is none."""

    def likeness_of(self, definition: str, connect: str | None) -> Likeness:
        """Of a machine that is defined by a text.  Raises UsageError if it makes no sense."""

    def made_here(self, likeness: Likeness) -> Likeness:
        """The same, of what this host has; `differs` says what for."""
