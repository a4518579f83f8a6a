# SPDX-License-Identifier: Apache-2.0
"""What a check on this host gets of it, whatever it checks.

A check is a command of whoever made the recording.  bubblewrap shows it the host's files,
read-only, with nothing in /tmp, /run and the like but what is named; null and its like for devices;
no other process; no network but loopback, and no socket of the host: abstract ones belong to a
network, those with a name among the files are covered.  No program gets privileges back
(no_new_privs).  Its memory as files is limited, it is the first that the kernel ends where memory
runs out, and an ordinary user's has a limit of processes.  What is left to it are named pipes that
its user may open.
"""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from powercut.sandbox.confined import SETTINGS

EMPTY: Final = (Path("/tmp"), Path("/run"), Path("/var/tmp"), Path("/dev/shm"))
"""Empty and in memory in there, but for what a check is made of."""

MEMORY_MAX: Final = 1 << 30
"""Bytes of files in each of those: an eighth of the host's memory, and no more than this."""

_PROCESSES_MAX: Final = 4096
_SOCKETS: Final = Path("/proc/net/unix")
_SOCKETS_MAX: Final = 256  # those that are covered


def limits() -> list[str]:
    """What stands before the command that makes the sandbox."""
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    most = _PROCESSES_MAX if processes < 0 else min(processes, _PROCESSES_MAX)
    return ["choom", "-n", "1000", "--", "prlimit", "--core=0", f"--nproc={most}", "--"]


def host_view(shown: Iterable[Path], *, kept: Path | None = None) -> list[str]:
    """bubblewrap's options for the host's files; `shown` are what is visible in EMPTY.

    Sockets below `kept` are the check's own.
    """
    shown = list(shown)
    argv = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for setting in SETTINGS:
        argv += ["--ro-bind", setting, setting] if Path(setting).exists() else []
    for place in EMPTY:
        if place not in shown and place.is_dir():
            argv += ["--size", str(_room()), "--tmpfs", str(place)]
    for path in shown:
        argv += ["--ro-bind", str(path), str(path)]
    for path in _sockets():
        hidden = any(path.is_relative_to(place) for place in EMPTY)
        seen = not hidden or any(path.is_relative_to(one) for one in shown)
        if seen and (kept is None or not path.is_relative_to(kept)):
            argv += ["--ro-bind", "/dev/null", str(path)]
    return argv


def capabilities() -> list[str]:
    """bubblewrap's options: none, but root's check may become another user, as servers want."""
    argv = ["--cap-drop", "ALL"]
    for name in ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"):
        argv += ["--cap-add", f"CAP_{name}"] if os.geteuid() == 0 else []
    return argv


def _room() -> int:
    part = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8
    return min(part, MEMORY_MAX)


def _sockets() -> list[Path]:
    """Those among the host's files on which somebody may listen (unix(7), /proc/net/unix)."""
    found: dict[Path, None] = {}
    with suppress(OSError):
        for line in _SOCKETS.read_text(errors="surrogateescape").splitlines()[1:]:
            name = line.split(maxsplit=7)[7:]
            if name and name[0].startswith("/"):
                found[Path(os.path.realpath(name[0]))] = None
    return [path for path in found if _is_socket(path)][:_SOCKETS_MAX]


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(path.lstat().st_mode)
    except (OSError, ValueError):
        return False
