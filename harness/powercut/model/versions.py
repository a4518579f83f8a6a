# SPDX-License-Identifier: Apache-2.0
"""The words for versions of the hypervisor and of the guest's kernel.

A version is what is there (`host`, `guest`), a Debian suite whose packages are fetched, or an
absolute path.
"""

from __future__ import annotations

from typing import Final

HOST: Final = "host"
"""The QEMU that is installed on the host."""

GUEST: Final = "guest"
"""The kernel of powercut's own guest: the newest that the host's apt offers."""

SUITES: Final = ("bookworm", "bookworm-backports", "trixie", "sid")
"""Debian suites whose QEMU and kernels can be used beside the host's."""

UML_SUITES: Final = ("bullseye", *SUITES)
"""Debian suites whose User-Mode Linux can be used; bullseye's has the faults of 2021."""

STAND_IN: Final = "trixie"
"""The suite whose User-Mode Linux is the host's where its distribution has none, as Ubuntu."""

CHOSEN: Final = ("qemu", "qemu_after_move", "kernel")
"""The settings of a machine that choose versions."""

AFTER_MOVE: Final = "hypervisor after the move"
"""The part of a machine in which its guest continues (`machine.during`)."""

TESTED: Final = ("hypervisor", AFTER_MOVE, "guest kernel")
"""The parts of a machine that are tested, in the order in which they are named."""


def is_path(choice: str) -> bool:
    """Whether a version was given as a path."""
    return choice.startswith("/")
