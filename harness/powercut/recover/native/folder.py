# SPDX-License-Identifier: Apache-2.0
"""Runs a user's check on a folder that a cut may have left, where the captured folder was.

bubblewrap binds the folder over the path that was captured, so that what the command names by an
absolute path (a backing file, a socket) is the state's; and its process namespace ends with it.
The check is the user's own command and has the user's own rights otherwise.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError
from powercut.model.observation import Observation
from powercut.sandbox.confined import REMEDY, find_tool

_LINES_MAX: Final = 64 << 20
_SAID_MAX: Final = 2000
_IN_THERE: Final = 'exec "$@" 3>&0 0</dev/null'


def _inside(state: Path, folder: Path, where: Path) -> list[str]:
    """What runs a command where `state` lies over `folder`, called in `where`.

    Raises HostError.
    """
    wrapper = find_tool("bwrap")
    if wrapper is None:
        raise HostError("bubblewrap is not installed", hint=REMEDY)
    if not folder.is_dir():
        raise HostError(
            f"{folder}: the state belongs there, and it is no folder of this host",
            hint=f"mkdir -p {shlex.quote(str(folder))}",
        )
    return [
        *(str(wrapper), "--dev-bind", "/", "/", "--bind", str(state), str(folder)),
        *("--proc", "/proc", "--unshare-pid", "--die-with-parent", "--chdir", str(where), "--"),
    ]


def shell_in_folder(state: Path, folder: Path, commands: str | None) -> int:
    """A shell in `folder`, where `state` lies; it reads `commands`, else what a person types.

    Returns its exit status.  Raises HostError if it cannot be started.
    """
    shell = "/bin/sh" if commands is not None else os.environ.get("SHELL", "/bin/sh")
    argv = [*_inside(state, folder, folder), shell]
    try:
        if commands is None:
            return subprocess.run(argv, check=False).returncode
        return subprocess.run(argv, input=commands, text=True, check=False).returncode
    except OSError as error:
        raise HostError(f"cannot start a shell: {error}") from error


def check_folder(
    command: Sequence[str], state: Path, folder: Path, where: Path, *, timeout_s: float
) -> Observation:
    """What `command` says of the folder `state`, which it finds at `folder`.

    It is called in `where`.  Raises HostError if it cannot be started.
    """
    argv = [*_inside(state, folder, where), "/bin/sh", "-c", _IN_THERE, "sh", *command]
    environment = os.environ | {"POWERCUT_FD": "3"}
    with tempfile.TemporaryFile() as lines, tempfile.TemporaryFile() as said:
        try:
            done = subprocess.run(
                argv,
                stdin=lines,
                stdout=said,
                stderr=said,
                env=environment,
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            failure = f"it did not end within {timeout_s:.3g} s"
            return Observation((), complete=False, failure=failure)
        except OSError as error:
            raise HostError(f"cannot run the check: {error}") from error
        lines.seek(0)
        text = lines.read(_LINES_MAX)
        if done.returncode == 0:
            return Observation((), lines=text)
        said.seek(max(0, said.seek(0, os.SEEK_END) - _SAID_MAX))
        words = " ".join(said.read().decode(errors="replace").split()) or "nothing"
    failure = f"its status is {done.returncode}, and it says: {words}"
    return Observation((), complete=False, failure=failure, lines=text)
