# SPDX-License-Identifier: Apache-2.0
"""A program and its three verbs, as plans for User-Mode Linux (docs/adding-a-program.md)."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.model.errors import UsageError
from powercut.recover.plan import HostRoot, RecoveryPlan
from powercut.rig.host_files import sha256_of

MOUNT: Final = "/mnt"
DIR: Final = "/mnt/data"
"""The program's folder: on the disk under test, in the root that the program sees."""

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DESCRIPTOR: Final = 3


@dataclass(frozen=True)
class Program:
    """An executable of the host with arguments of its own; verb and folder follow them.

    `folder` is where it starts, on the host and in the guest alike.
    """

    command: tuple[str, ...]
    folder: str

    @staticmethod
    def find(command: tuple[str, ...]) -> Program:
        """The program that `command` means from here.  Raises UsageError if it is none."""
        found = shutil.which(command[0])
        if found is None:
            why = "is not executable" if Path(command[0]).is_file() else "there is no such program"
            raise UsageError(
                f"{command[0]}: {why}",
                hint="give the path of an executable with the verbs setup, run and check",
            )
        return Program((str(Path(found).absolute()), *command[1:]), str(Path.cwd()))

    def digest(self) -> str:
        """SHA-256 of the files that the command names: the program, or an interpreter and its
        script.  What those load is not among them.  Raises HostError.
        """
        whole = hashlib.sha256()
        for word in self.command:
            path = Path(self.folder, word)
            if path.is_file():
                whole.update(bytes.fromhex(sha256_of(path)))
        return whole.hexdigest()

    def argv(self, verb: str, folder: str = DIR) -> tuple[str, ...]:
        """The command line of a verb."""
        return (*self.command, verb, folder)

    def environment(self, seed: int, run_id: bytes) -> tuple[str, ...]:
        """What a verb finds in its environment."""
        return (
            f"PATH={_PATH}",
            "HOME=/tmp",
            "LANG=C.UTF-8",
            f"POWERCUT_FD={_DESCRIPTOR}",
            f"POWERCUT_SEED={seed}",
            f"POWERCUT_RUN={run_id.hex()}",
        )

    def plan(self, filesystem: str, mount_options: str, seed: int, run_id: bytes) -> RecoveryPlan:
        """Recovery: mount, then `check`."""
        folders = (str(Path(os.path.realpath(self.command[0])).parent), self.folder)
        visible = tuple(dict.fromkeys((*folders, str(Path(self.command[0]).parent))))
        return RecoveryPlan.of(
            filesystem,
            mount_options,
            f"/host{MOUNT}",
            self.argv("check"),
            host=HostRoot(self.folder, self.environment(seed, run_id), visible),
        )
