# SPDX-License-Identifier: Apache-2.0
"""What each state of somebody's log is asked: does it mount, does the file system's own checker
find it whole, and does a check of the user's find what a mark promised.

All of it runs in User-Mode Linux on the files of this host, as the check of a program does: the
state is mounted there, the check gets its folder, and once that is unmounted the file system's
checker gets the disk.  A check is

- a command that is called with the folder, and with the name of the last mark before the cut in
  POWERCUT_MARK: it ends with 0 if it finds what that mark promised, else with 1 to 125.  Before the
  first mark nothing was promised, and it is not called;
- or a program's verb `check` (docs/adding-a-program.md), for a log whose marks are `ack N`.

The checkers are called so that they change nothing, and what their exit status means is said in
e2fsck(8), xfs_repair(8) and btrfs-check(8).
"""

from __future__ import annotations

import enum
import re
import secrets
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, ValidationError

from powercut.model.errors import HostError, UsageError
from powercut.model.printable import printable
from powercut.recording.disk_places import FilesystemName
from powercut.recover.plan import RecoveryPlan
from powercut.rig import commands
from powercut.rig.rig import Rig
from powercut.scenario.settings import Parameters
from powercut.workload.port import MOUNT_POINT

MARK: Final = "POWERCUT_MARK"
"""The variable that has the name of the last mark before the cut."""

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NOTHING: Final = ("/bin/true",)
NO_VERDICT: Final = 126
"""From here on a status says that a command was not run, or was ended (POSIX, 2.8.2)."""

_KEY: Final = secrets.token_hex(8)
"""Nobody who prints what he finds on a disk can say that he has ended."""

_SCRIPT: Final = f'echo {_KEY} >&3; "$@" >&3 2>&1 </dev/null 3>&-; echo "{_KEY} $0 $?" >&3'
"""What a command prints is told between the key and its status.  Nothing but the command is
started: that costs 20 ms in User-Mode Linux."""

_ANSWER: Final = re.compile(rf"{_KEY}\n(.*?){_KEY} (check|fsck) (\d{{1,3}})\n".encode(), re.DOTALL)
_SAID_MAX: Final = 300
_NO_NEWS: Final = re.compile(r"(Pass |Phase | *- |e2fsck |\[\d+/\d+\] checking)")
"""How lines of checkers begin that say how far they have come."""


@dataclass(frozen=True)
class Fsck:
    """The checker of a file system: its words, which of its statuses say that something is wrong,
    and the Debian package that has it.  All others but 0 say nothing of the disk.
    """

    words: tuple[str, ...]
    wrong: frozenset[int]
    package: str


FSCK: Final[Mapping[str, Fsck]] = {
    "ext4": Fsck(("e2fsck", "-fn"), frozenset({4}), "e2fsprogs"),
    "xfs": Fsck(("xfs_repair", "-n", "-o", "force_geometry"), frozenset({1}), "xfsprogs"),
    "btrfs": Fsck(("btrfs", "check", "--readonly"), frozenset({1}), "btrfs-progs"),
}
"""By file system.  f2fs is mounted and no more: its checker's status does not tell damage from
trouble of its own in the version of Debian 12."""


class Asked(enum.Enum):
    """Who is asked of a state."""

    CHECK = "check"
    FSCK = "fsck"


@dataclass(frozen=True)
class Answer:
    """The exit status of one who was asked, and the end of what it printed."""

    status: int
    said: str

    def __str__(self) -> str:
        return f"status {self.status}" + (f": {self.said}" if self.said else "")


class LogChecks(BaseModel):
    """As it stands in import.json.  `program`: the command has the verb `check`.

    The command starts in `folder` and gets the folder `inside` the file system; `versions` are
    those of what is run, as in trial.json.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    mount: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    program: bool = False
    folder: str = "/"
    inside: str = ""
    versions: dict[str, str] = {}

    def parameters(self, filesystem: str) -> Parameters:
        """The settings of a system that would ask the same.  Raises UsageError."""
        program = self.command or fsck_command(filesystem) or _NOTHING
        try:
            return Parameters.model_validate(
                {
                    "filesystem": {"type": filesystem, "mount": list(self.mount)},
                    "workload": {
                        "kind": "program",
                        "command": list(program),
                        "folder": self.folder,
                    },
                }
            )
        except ValidationError as error:
            told = error.errors()[0]
            raise UsageError(f"{'.'.join(map(str, told['loc'][:2]))}: {told['msg']}") from error

    def told(self, filesystem: str) -> str:
        """What is done with each state, for a person."""
        steps = [f"mounted as {filesystem}" + (f" ({','.join(self.mount)})" if self.mount else "")]
        if self.command:
            verb = "check" if self.program else "with the last mark's name in " + MARK
            steps.append(f"`{shlex.join(self.command)}` {verb}")
        if (row := FSCK.get(filesystem)) is not None:
            steps.append(f"unmounted, `{shlex.join(row.words)}`")
        return ", ".join(steps)

    def with_versions(self, filesystem: str) -> LogChecks:
        """The same with what it runs, exactly.  Raises UsageError, HostError."""
        parameters = self.parameters(filesystem)
        return self.model_copy(update={"versions": Rig().versions(parameters)})

    def plan(self, filesystem: str, mark: str | None) -> RecoveryPlan:
        """What recovery of a state consists of whose last mark is `mark`; None before the first."""
        usual = commands.recovery_plan(self.parameters(filesystem), bytes(16))
        host = usual.host
        assert host is not None, "such programs run on this host's files"
        called, checker = usual.reader[:-2], fsck_command(filesystem)
        place = f"{MOUNT_POINT}/{self.inside}".rstrip("/")
        reader: tuple[str, ...] = _NOTHING
        if self.program:
            reader = (*called, "check", place)
        elif self.command and mark is not None:
            reader = _telling(Asked.CHECK, (*called, place))
            told = (*host.environment, f"{MARK}={printable(mark)}")
            host = replace(host, environment=told)
        plan = replace(usual.read_by(reader), host=host)
        return plan.examined(_telling(Asked.FSCK, checker)) if checker else plan


def filesystem_to_check(base: Path, found: FilesystemName, wanted: str) -> FilesystemName:
    """The file system on a base image, where it was `found`, and which was `wanted`.

    Raises UsageError if that is not one, or none.
    """
    if found and wanted in ("", found):
        return found
    if found:
        raise UsageError(
            f"{base}: holds {found}, not {wanted}",
            hint=f"--filesystem {found}, if it is the disk as it was before logging began",
        )
    raise UsageError(
        f"{base}: no file system is found on it that could be mounted and checked",
        hint="give the disk as it was before logging began, after mkfs; xfs, ext4, btrfs and f2fs "
        "are known",
    )


def fsck_command(filesystem: str) -> tuple[str, ...]:
    """How the checker of a file system is called, without its disk; empty if none is.

    Raises HostError if it is not installed.
    """
    if (row := FSCK.get(filesystem)) is None:
        return ()
    if (program := shutil.which(row.words[0], path=_PATH)) is None:
        raise HostError(f"{row.words[0]} is not installed", hint=f"apt-get install {row.package}")
    return (program, *row.words[1:])


def answers_of(lines: bytes) -> tuple[dict[Asked, Answer], bytes]:
    """Who said what of a state, and what a program said besides."""
    told = {
        Asked(who.decode()): Answer(int(status), _news(said))
        for said, who, status in _ANSWER.findall(lines)
    }
    return told, _ANSWER.sub(b"", lines)


def _news(said: bytes) -> str:
    """The end of what somebody printed, in one line."""
    lines = (line.strip() for line in said.decode(errors="replace").splitlines())
    text = "; ".join(line for line in lines if line and not _NO_NEWS.match(line))
    return printable(text if len(text) <= _SAID_MAX else f"... {text[-_SAID_MAX:]}")


def _telling(who: Asked, command: tuple[str, ...]) -> tuple[str, ...]:
    return ("/bin/sh", "-c", _SCRIPT, who.value, *command)
