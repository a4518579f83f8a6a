# SPDX-License-Identifier: Apache-2.0
"""The program that a command line means where it was typed."""

from __future__ import annotations

import importlib.util
import inspect
import os
import shutil
import sys
import sysconfig
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


def class_command(program: type) -> tuple[str, ...]:
    """What loads a class with the methods setup, run and check, and calls the one of a verb.

    It needs `import_path` in its PYTHONPATH.  Raises UsageError if no other process can load it.
    """
    try:
        file = Path(inspect.getfile(program))
    except (OSError, TypeError):  # typed at a prompt
        file = Path()
    if not file.is_file() or "<locals>" in program.__qualname__:
        raise UsageError(
            f"{program.__qualname__}: another process cannot load this class",
            hint="define it in a file, outside of functions",
        )
    found = importlib.util.find_spec("powercut_program")
    assert found is not None, "it is installed with powercut"
    loader = Path(str(found.origin)).resolve()
    # A script is loaded under its own name, so that its `if __name__ == "__main__"` does nothing.
    module = file.stem if program.__module__ == "__main__" else program.__module__
    return sys.executable, str(loader), os.path.relpath(file), f"{module}:{program.__qualname__}"


def import_path() -> str:
    """Where this process finds modules, but for Python's own and those that are installed."""
    own = {Path(path) for path in sysconfig.get_paths().values()}
    own |= {path / "lib-dynload" for path in own}
    return os.pathsep.join(
        path for path in sys.path if Path(path).is_dir() and Path(path).absolute() not in own
    )
