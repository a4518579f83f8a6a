# SPDX-License-Identifier: Apache-2.0
"""What a cell ran on, and what was executed for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from powercut.store.record import Record, read_model

if TYPE_CHECKING:
    from powercut.store.layout import ResultDir

COMPONENTS: Final = "components.json"


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


class RunComponents(Record):
    """components.json of a run: what its cells ran on."""

    components: tuple[Component, ...]
    """Each once."""

    cells: dict[str, tuple[int, ...]]
    """By the name of a cell, indices into them."""

    executed: tuple[Executed, ...] = ()
    """What the cells execute, each once."""


def write_components(run: ResultDir, components: RunComponents) -> None:
    """Writes components.json.  Raises HostError."""
    run.write_file(COMPONENTS, components.model_dump_json(indent=1).encode() + b"\n")


def read_components(run: ResultDir) -> RunComponents:
    """Reads components.json; raises DamagedRecording."""
    return read_model(run.path / COMPONENTS, RunComponents)
