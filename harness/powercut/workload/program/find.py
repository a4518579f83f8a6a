# SPDX-License-Identifier: Apache-2.0
"""The program that a command line means where it was typed."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from powercut.model.errors import UsageError
from powercut.scenario.settings import ProgramSettings


def find_program(command: Sequence[str], *, inside: bool = False) -> ProgramSettings:
    """The settings of the program that `command` names, seen from the working directory.

    A name without a slash is looked up in PATH, as a shell does; `inside` a root of its own an
    absolute path is not looked for here.  Raises UsageError if it is no program.
    """
    name = command[0]
    if inside and name.startswith("/"):
        return ProgramSettings(kind="program", command=tuple(command), folder=str(Path.cwd()))
    path = shutil.which(name)
    if path is None:
        why = "is not executable" if Path(name).is_file() else "there is no such program"
        raise UsageError(
            f"{name}: {why}",
            hint="give the path of an executable with the verbs setup, run and check",
        )
    program = name if "/" in name else str(Path(path).absolute())
    return ProgramSettings(kind="program", command=(program, *command[1:]), folder=str(Path.cwd()))
