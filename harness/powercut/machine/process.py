# SPDX-License-Identifier: Apache-2.0
"""Child processes that never outlive the controller, however it ends.

The kernel kills a child whose parent-death signal is set (prctl(2),
PR_SET_PDEATHSIG) when the *thread* that made it ends.  So all children are made by one
thread, which lives as long as the interpreter.  setpriv(1) sets the signal in the
child before it becomes the program.  Should the controller die even before that, the
sockets on which it listens are gone, and QEMU ends because it cannot connect.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from powercut.model.errors import HostError

_IF_PARENT_LIVES = 'test "$PPID" = "$0" || exit 125; exec "$@"'

_lock = threading.Lock()
_spawners: dict[int, ThreadPoolExecutor] = {}  # by process: a fork does not inherit the thread


def spawn(
    argv: Sequence[str], output: Path, *, pass_fds: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Starts `argv` in a session of its own; what it prints is appended to `output`.

    It inherits `pass_fds`.  Raises HostError if it cannot be started.
    """
    return _spawner().submit(_spawn, guarded(argv), output, tuple(pass_fds)).result()


def guarded(argv: Sequence[str]) -> list[str]:
    """`argv` behind what kills it when this process, which must be its parent, ends.

    Raises HostError if one of them is not there.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise HostError("setpriv is not installed", hint="apt-get install util-linux")
    if shutil.which(argv[0]) is None:
        raise HostError(f"{argv[0]} is not an executable file")
    guard = [setpriv, "--pdeathsig", "KILL", "--", "/bin/sh", "-c", _IF_PARENT_LIVES]
    return [*guard, str(os.getpid()), *argv]


def _spawn(argv: list[str], output: Path, pass_fds: tuple[int, ...]) -> subprocess.Popen[bytes]:
    try:
        with output.open("ab") as log:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=pass_fds,
            )
    except OSError as error:
        raise HostError(f"cannot start a process: {error}") from None


def _spawner() -> ThreadPoolExecutor:
    with _lock:
        return _spawners.setdefault(
            os.getpid(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")
        )
