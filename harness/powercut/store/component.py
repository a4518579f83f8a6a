# SPDX-License-Identifier: Apache-2.0
"""What a cell ran on, and what was executed for it."""

from __future__ import annotations

from powercut.store.record import Record


class Component(Record):
    """A program or kernel that was under test, or under which the test ran."""

    role: str
    """`hypervisor`, `guest kernel`, `host kernel`, `capture disk`, `recovery kernel`, `program`,
    `root file system`."""

    name: str
    """Such as `qemu-system-x86_64` or `Linux`."""

    version: str
    """What it says of itself; of a root file system the packages that were asked for."""

    package: str = ""
    """Package and version that it came from; empty if from none."""

    sha256: str = ""
    """Digest of its binary, 64 hex digits; empty if there is no file."""


class Executed(Record):
    """Something that was executed on this host for a cell, or for its verdict."""

    what: str
    """`hypervisor`, `guest kernel`, `recovery kernel`, `program`, `check`, `tools on images`."""

    command: str
    """The command, or a name and a version."""

    sha256: str = ""
    """Digest of its file, 64 hex digits; empty if it lies in a root file system, whose digest is
    among the components, or is several."""

    source: str
    """Whose it is: this host's, a package's, a path that the scenario names, a root file system."""

    confined: str
    """What keeps it from the host; `not confined` if nothing does."""
