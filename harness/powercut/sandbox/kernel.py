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

import os
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
from powercut.sandbox.check import EMPTY
from powercut.sandbox.confined import SETTINGS, find_tool, sandboxes
from powercut.sandbox.users import FIRST, Lowered, as_user, for_all, lowered, open_above, topmost

IN_MEMORY: Final = Path("/dev/shm")
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
    memory: Path,
    size: int,
    *,
    shows: Sequence[Path] = (),
    writes: Sequence[Path] = (),
    for_root: bool = False,
) -> KernelSandbox:
    """A sandbox for a kernel whose memory of `size` bytes is to lie in the folder `memory`.

    It sees what `shows` names though that lies in a place which is empty in there, and may write
    to the files in `writes`.  Root's runs as another user unless what it inherits is `for_root`
    alone.  Raises OSError if nothing can be made in `memory`.
    """
    bubblewrap = not kernel_bubblewrap()
    if bubblewrap and memory == IN_MEMORY:
        return KernelSandbox(tuple(_bubblewrap(shows, size, for_root=for_root)), memory)
    made = Path(tempfile.mkdtemp(prefix="powercut-memory-", dir=memory))
    if bubblewrap:
        argv = _bubblewrap(shows, _EMPTY_BYTES, made, for_root=for_root)
        return KernelSandbox(tuple(argv), made, made)
    needs = (*shows, *writes, Path(sys.executable), Path(landlock.__file__))
    before = as_user() if not for_root and for_all((*needs, memory)) else []
    if before:
        os.chown(made, FIRST, FIRST)
    return KernelSandbox((*before, *_landlock(made, writes)), made, made)


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


def _bubblewrap(
    shows: Iterable[Path], size: int, memory: Path | None = None, *, for_root: bool = False
) -> Iterator[str]:
    shown = sorted({path.absolute() for path in shows})
    bound = [
        path for path in shown if any(path != one and path.is_relative_to(one) for one in EMPTY)
    ]
    users = Lowered()
    if not for_root:
        rest = [path for path in shown if path not in bound and not for_all([path])]
        if for_all(path.parent for path in rest):
            own = topmost((*bound, *rest, *([] if memory is None else [memory])))
            users = lowered(own)
            bound += rest if users.argv else []
    yield str(find_tool("bwrap"))
    # PID 1 of the namespace is a guard itself, for which its parent waits: so processor time is
    # accounted for.  It ends when the kernel's does, which ends when its standard input does;
    # --die-with-parent would end it with the thread that has started it.
    yield from ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--as-pid-1")
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *users.options)
    for setting in SETTINGS:
        if Path(setting).exists():
            yield from ("--ro-bind", setting, setting)
    for place in EMPTY:
        if place.is_dir():
            room = size if place == IN_MEMORY else _EMPTY_BYTES
            yield from ("--perms", "1777", "--size", str(room), "--tmpfs", str(place))
    for path in bound:
        yield from (*open_above(path, EMPTY), "--ro-bind", str(path), str(path))
    if memory is not None:
        yield from (*open_above(memory, EMPTY), "--bind", str(memory), str(memory))
    yield from ("--chdir", "/", "--", *users.argv)


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
