# SPDX-License-Identifier: Apache-2.0
"""A kernel that is a process of this host, and what it gets of the host.

User-Mode Linux opens what its guest asks for by name (hostfs) and keeps its guest's memory in a
file.  Around it stands one of two sandboxes:

1. bubblewrap: all of the host's files, read-only, with /tmp, /run, /var/tmp and /dev/shm empty but
   for what is named; no other process, no network, no device but null and its like.  Its memory is
   a file system of its own, which cannot grow beyond the guest's memory and goes with it.
2. Landlock: all of the host's files, read-only, sockets too; it may write to one folder that is
   made for it, and cannot signal others (Linux 6.12).

In both, and where neither works, it has no capability and few system calls (guests/uml/limits.c),
and programs in its guest cannot mount anything (guests/uml/confine.c).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from powercut.sandbox import landlock
from powercut.sandbox.confined import SETTINGS, find_tool, sandboxes

IN_MEMORY: Final = Path("/dev/shm")
_EMPTY: Final = (Path("/tmp"), Path("/var/tmp"), Path("/run"), IN_MEMORY)
_EMPTY_BYTES: Final = 64 << 10  # names of what is shown in there, and nothing else
_TRY_S: Final = 20.0


@dataclass(frozen=True)
class KernelSandbox:
    """What stands before the command, and where the memory is, as the command sees it.

    `made` is a folder of the host that the caller removes once the command has ended.
    """

    argv: tuple[str, ...]
    memory: Path
    made: Path | None = None

    def remove(self) -> None:
        """Removes what was made for it; idempotent."""
        if self.made is not None:
            shutil.rmtree(self.made, ignore_errors=True)


def kernel_sandbox(
    memory: Path, size: int, *, shows: Sequence[Path] = (), writes: Sequence[Path] = ()
) -> KernelSandbox:
    """A sandbox for a kernel whose memory of `size` bytes is to lie in the folder `memory`.

    It sees what `shows` names though that lies in a place which is empty in there, and may write
    to the files in `writes`.  Raises OSError if nothing can be made in `memory`.
    """
    bubblewrap = not kernel_bubblewrap()
    if bubblewrap and memory == IN_MEMORY:
        return KernelSandbox(tuple(_bubblewrap(shows, size)), memory)
    made = Path(tempfile.mkdtemp(prefix="powercut-memory-", dir=memory))
    if bubblewrap:
        return KernelSandbox(tuple(_bubblewrap(shows, _EMPTY_BYTES, made)), made, made)
    return KernelSandbox(tuple(_landlock(made, writes)), made, made)


@cache
def kernel_bubblewrap() -> str:
    """Why the first of the sandboxes does not work here; empty if it does."""
    if find_tool("bwrap") is None:
        return "bubblewrap is not installed"
    try:
        argv = [*_bubblewrap([], 1 << 20), "/bin/true"]
        done = subprocess.run(argv, capture_output=True, timeout=_TRY_S, check=False, text=True)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip() or "bubblewrap fails")


def _bubblewrap(shows: Iterable[Path], size: int, memory: Path | None = None) -> Iterator[str]:
    yield str(find_tool("bwrap"))
    # PID 1 of the namespace is the guard itself, for which its parent waits: so processor time is
    # accounted for.  It ends when its standard input does; --die-with-parent would end it with the
    # thread that has started it.
    yield from ("--unshare-all", "--as-pid-1", "--cap-drop", "ALL")
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    for setting in SETTINGS:
        if Path(setting).exists():
            yield from ("--ro-bind", setting, setting)
    for place in _EMPTY:
        if place.is_dir():
            room = size if place == IN_MEMORY else _EMPTY_BYTES
            yield from ("--size", str(room), "--tmpfs", str(place))
    for path in sorted({path.absolute() for path in shows}):
        if any(path != place and path.is_relative_to(place) for place in _EMPTY):
            yield from ("--ro-bind", str(path), str(path))
    if memory is not None:
        yield from ("--bind", str(memory), str(memory))
    yield from ("--chdir", "/", "--")


def _landlock(folder: Path, writes: Iterable[Path]) -> Iterator[str]:
    """Empty where there is no Landlock."""
    if sandboxes().landlock:
        return
    yield from (sys.executable, "-I", "-S", landlock.__file__, "--remove", str(folder))
    yield from ("--read", "/")
    devices = [path for path in ("/dev/null", "/dev/ptmx", "/dev/pts") if Path(path).exists()]
    for path in (*devices, *map(str, writes)):
        yield from ("--write", path)
    yield from ("--fill", str(folder), "--")
