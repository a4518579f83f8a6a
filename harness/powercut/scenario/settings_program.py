# SPDX-License-Identifier: Apache-2.0
"""The settings of the workload `program`: anybody's executable."""

from __future__ import annotations

import os
import re
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictInt, WithJsonSchema

from powercut.model.printable import words_of
from powercut.scenario.quantity import Duration
from powercut.scenario.settings_base import OfWorkload, is_printable


def _words(value: Any) -> Any:
    return words_of(value) if isinstance(value, str) else value


def _is_command(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or not value[0]:
        raise ValueError("give a program with the verbs setup, run and check")
    if not all(word and "\0" not in word for word in value):
        raise ValueError("a word is empty, or holds a zero byte")
    return value


Command = Annotated[
    tuple[str, ...],
    BeforeValidator(_words),
    AfterValidator(_is_command),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
]


ON_HOST: Final = "host"
"""The root that is this host's own files."""

ON_MACHINE: Final = "machine"
"""The root that is the system of a machine which is there already."""

DEBIAN: Final = "debian"
"""The root that is made from Debian's packages; `debian:SUITE` names the suite."""

NO_VM: Final = "no-vm"
"""Where a program with a root of its own runs without a virtual machine."""

_STABLE: Final = "trixie"
"""The suite of `debian` alone."""

_PACKAGE: Final = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+]")
"""A package's name (Debian Policy, 5.6.1).  None ends with `-`: apt would take that for removal."""


def _is_package(value: str) -> str:
    if _PACKAGE.fullmatch(value) is None:
        raise ValueError("no name of a Debian package, such as postgresql")
    return value


Package = Annotated[str, AfterValidator(_is_package)]


_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=[^\0\n]*")


def _is_variable(value: str) -> str:
    if _VARIABLE.fullmatch(value) is None:
        raise ValueError("no variable of an environment: NAME=VALUE, in one line")
    if value.startswith("POWERCUT_"):
        raise ValueError("variables that begin with POWERCUT_ are powercut's own")
    return value


Variable = Annotated[str, AfterValidator(_is_variable)]


def is_place(value: str) -> str:
    """`value`, which is a path from the root of all files on; else raises ValueError."""
    if not is_printable(value).startswith("/") or os.path.normpath(value) != value:
        raise ValueError("no place outside of DIR: an absolute path, such as /tmp/cache")
    return value


Place = Annotated[str, AfterValidator(is_place)]


def suite_of(root: str) -> str | None:
    """The Debian suite that a root names; None for any other root."""
    name, colon, suite = root.partition(":")
    if name != DEBIAN:
        return None
    return suite if colon else _STABLE


class ProgramSettings(OfWorkload):
    """Anybody's program: one executable with the verbs `setup`, `run` and `check`
    (docs/adding-a-program.md)."""

    kind: Literal["program"]
    """`program`: an executable of yours."""

    command: Command
    """The executable and its own arguments, in one string or as a list; verb and folder follow
    them.  A relative path begins at the scenario's folder."""

    folder: Annotated[str, AfterValidator(is_printable)] = ""
    """Where it starts, an absolute path; by default the scenario's folder."""

    env: tuple[Variable, ...] = ()
    """Variables of its environment besides PATH, HOME, LANG and powercut's own: NAME=VALUE each.
    No other reaches it, and the verdict names those that the caller had."""

    scratch: tuple[Place, ...] = ()
    """Places outside of DIR that no promise rests on, such as /tmp/cache: the verdict says nothing
    of what the program leaves there."""

    root: Annotated[str, AfterValidator(is_printable), Field(min_length=1)] = ON_HOST
    """The files that it runs on: `host`, this host's own, read-only, in User-Mode Linux: no
    virtual machine, no root; or those of a guest: `debian`, which is made from the packages in
    `packages` (`debian:bookworm` and the like name another suite than trixie), a folder, a tar, an
    OCI image layout (a folder with `index.json`) or an ext4 image, whose path begins at the
    scenario's folder.  The guest has them read-only, with empty file systems in memory over /tmp,
    /run, /var/tmp and /dev/shm, and a relative `command` is brought there with its folder."""

    bring: Annotated[str, AfterValidator(is_printable)] = ""
    """The folder that comes into a root of its own with a relative `command`, and in which that
    lies; by default the folder of the command alone.  Begins at the scenario's folder."""

    where: Literal["uml", "loop", "no-vm"] = "uml"
    """The kernel that it runs on.  With `root: host`: `uml`, User-Mode Linux, or `loop`, this
    host's own, with its folder on a loop device over the disk under test: faster, and for root
    alone.  The program is then the user nobody, without any capability.  Crash states are
    recovered in User-Mode Linux either way.  With a root of its own: `no-vm`, User-Mode Linux on
    that root, unpacked on this host, instead of a virtual machine: several times faster."""

    kernel: Literal["host", "bullseye", "bookworm", "bookworm-backports", "trixie", "sid"] = "host"
    """The User-Mode Linux that runs it with `root: host`, and recovers its states: the one that
    is installed, or that of a Debian suite, which is fetched once."""

    packages: tuple[Package, ...] = ()
    """Debian packages that `root: debian` has besides the essential ones, with all that they depend
    on."""

    at_most: Annotated[Duration, Field(gt=0)] = 10 * 10**9
    """How long it runs at most once it is ready: the power goes then even if so many operations
    as `cut.trigger.acks` says were not acknowledged yet.  While fewer than 10 were, which proves
    nothing, it may run five times as long."""

    syncs: Literal["kept", "dropped", "traced"] = "kept"
    """`dropped`: while it runs its calls that make data durable (fsync, fdatasync, sync, syncfs,
    sync_file_range, msync) succeed and do nothing, in every process of it, as in the control
    no-sync.  Files opened with O_SYNC or O_DSYNC still sync.  `traced`: it runs under ptrace(2),
    and the recording says when each of these calls was made, and from where; opening files with
    O_SYNC or O_DSYNC and writing with RWF_DSYNC are such calls, too.  `powercut audit
    flushes` then says who asked for each flush.  Not on a machine that is there
    already (`root: machine`)."""

    dropped_sync: Annotated[str, Field(pattern=r"^([0-9a-f]{16} [!-~]+)?$")] = ""
    """With `syncs: traced`: the one call site whose calls succeed and do nothing, as `powercut
    audit syncs` names it: a hash of its stack, and the file."""

    state_timeout: Annotated[Duration, Field(gt=0)] = 60 * 10**9
    """What one recovery with the program's `check` may take."""


class ClusterSettings(ProgramSettings):
    """A program with one more verb (docs/clusters.md): `node DIR NODE` serves on each node, `setup
    DIR NODE` makes it ready, `run` is their client, and `check` asks them after the cut."""

    kind: Literal["cluster"]  # type: ignore[assignment]  # it is told apart by this
    """`cluster`: several nodes on one kernel, each with a disk, a network and folders in memory of
    its own, which lose their power at one instant."""

    nodes: Annotated[StrictInt, Field(ge=2, le=4)] = 3
    """How many: `a`, whose disk is that of `disk.size`, `b`, `c` and `d`."""

    node_cuts: Annotated[
        tuple[Literal["a", "b", "c", "d", "minority", "majority"], ...], Field(max_length=3)
    ] = ()
    """Who loses its power before the rack does, one after the other while the client goes on, and
    begins again at once: a node's name, `minority` or `majority`.  At equal distances up to the
    acks of `cut.trigger.acks`."""
