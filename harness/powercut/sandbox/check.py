# SPDX-License-Identifier: Apache-2.0
"""What a check, or a program, on this host gets of it, whatever it checks.

A check is a command of whoever made the recording.  bubblewrap shows it the host's files,
read-only, with nothing in /tmp, /run and the like but what is named; null and its like for devices;
no other process; no network but loopback, and no socket or named pipe of the host: abstract ones
belong to a network, and those with a name among the files do not work through the overlay that it
sees of them (harness/guard).  No program gets privileges back (no_new_privs), and system calls that
no check needs are refused.  Its memory as files is limited, it is the first that the kernel ends
where memory runs out, and it has a limit of processes.
"""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError
from powercut.model.machine_identity import Boot
from powercut.model.outside import MEMORY_PLACES, LeftFiles
from powercut.model.printable import printable
from powercut.paths import REBUILD
from powercut.sandbox.confined import SETTINGS
from powercut.sandbox.users import guard_binary, open_above

EMPTY: Final = tuple(map(Path, MEMORY_PLACES))
"""Empty and in memory in there, but for what a check is made of."""

MEMORY_MAX: Final = 1 << 30
"""Bytes of files in each of those: an eighth of the host's memory, and no more than this."""

_PROCESSES_MAX: Final = 4096
_SOCKETS: Final = Path("/proc/net/unix")
_NAMED, _CONNECTED = 3, "03"  # columns from the state on; that of one that has its peer
_Sockets = frozenset[tuple[str, Path]]
_SOCKETS_MAX: Final = 8192  # that many words fit a command line
_NOBODY: Final = 65534  # servers refuse to run as root
_GUARD: Final = "/dev/check-guard"
_MACHINE: Final = "/dev/.machine"
"""Where the guard keeps what it shows of the machine (harness/guard/check.c)."""


def limits() -> list[str]:
    """What stands before the command that makes the sandbox."""
    processes = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    most = _PROCESSES_MAX if processes < 0 else min(processes, _PROCESSES_MAX)
    return ["choom", "-n", "1000", "--", "prlimit", "--core=0", f"--nproc={most}", "--"]


def host_view(shown: Iterable[Path], *, lies: Mapping[Path, Path] | None = None) -> list[str]:
    """bubblewrap's options for the host's files; `shown` are what is visible in EMPTY.

    Those of EMPTY are in memory, or where each `lies`.  Raises HostError if the guard is missing.
    """
    if not guard_binary().exists():
        raise HostError(f"{guard_binary()} is missing", hint=REBUILD)
    shown = list(shown)
    argv = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    for setting in SETTINGS:
        argv += ["--ro-bind", setting, setting] if Path(setting).exists() else []
    for place in EMPTY:
        if place not in shown and place.is_dir():
            memory = ["--size", str(_room()), "--perms", "1777", "--tmpfs"]
            argv += ["--bind", str(lies[place])] if lies else memory
            argv.append(str(place))
    for path in shown:
        argv += [*([] if lies else open_above(path, EMPTY)), "--ro-bind", str(path), str(path)]
    argv += ["--perms", "1777", "--dir", _MACHINE]
    return [*argv, "--ro-bind", str(guard_binary()), _GUARD]


def capabilities(*, of_root: bool) -> list[str]:
    """bubblewrap's options: what the guard needs, and gives up.

    Root's check may become another user, as servers want (`of_root`).  An ordinary user is 0 for
    the guard, and who that is for the check (`guarded`).
    """
    names = ["SETPCAP", "SYS_ADMIN", "NET_ADMIN"]
    if not of_root:
        names.append("SETFCAP")
    else:
        names += ["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID"]
    user = [] if of_root else ["--unshare-user", "--uid", "0", "--gid", "0"]
    added = (word for name in names for word in ("--cap-add", f"CAP_{name}"))
    return [*user, "--cap-drop", "ALL", *added]


def guarded(
    shown: Collection[Path],
    boot: Boot,
    *,
    of_root: bool,
    kept: Path | None = None,
    become: int | None = None,
    unlimited: bool = False,
    whole: bool = False,
    apart: Iterable[str] = (),
    each: bool = False,
) -> list[str]:
    """What stands before the check itself; `shown` and `of_root` are those of the other two, and
    `boot` is that of the machine which it sees.

    Sockets below `kept` are the check's own; root's may `become` another user, or have users
    `apart` (powercut.sandbox.users).  An `unlimited` one has all system calls; of a
    `whole` one that ends in order what it leaves goes on.  One that checks `each` state of `kept`
    finds it all anew (harness/guard/states.c).  Raises HostError if the host has too many sockets.
    """
    covered = seen_sockets(shown, kept)
    if len(covered) > _SOCKETS_MAX:
        raise HostError(f"{len(covered):,} sockets of this host are too many to hide")
    argv = [_GUARD, *(word for _, path in covered for word in ("--cover", str(path)))]
    machine = boot.machine
    argv += ["--mac", machine.mac, "--machine-id", machine.machine_id]
    argv += ["--first-pid", str(boot.first_pid), *apart]
    argv += ["--processes", str(_PROCESSES_MAX)] if of_root else []  # to root no limit applies
    user, group = (os.geteuid(), os.getegid()) if os.geteuid() else (_NOBODY, _NOBODY)
    argv += [] if of_root else ["--map", f"{user}:{group}"]
    argv += ["--become", str(become)] if become else []
    argv += ["--unlimited"] if unlimited else []
    argv += ["--whole"] if whole else []
    if each:
        argv += ["--states", str(kept), "--room", str(_room())]
        empty = (place for place in EMPTY if place not in shown)
        argv += [word for place in empty for word in ("--empty", str(place))]
        argv += [word for path in (*SETTINGS, *shown) for word in ("--over", str(path))]
    return [*argv, "--"]


def _room() -> int:
    part = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 8
    return min(part, MEMORY_MAX)


def seen_sockets(shown: Iterable[Path], kept: Path | None) -> _Sockets:
    """Those with a name in there on which somebody may listen, by their numbers (unix(7))."""
    text = _SOCKETS.read_text(errors="surrogateescape") if _SOCKETS.exists() else ""
    named = (line.split(maxsplit=7)[5:] for line in text.splitlines()[1:])
    ready = (tuple(one[1:]) for one in named if len(one) == _NAMED and one[0] != _CONNECTED)
    return _seen(frozenset(ready), tuple(shown), kept)


@lru_cache(maxsize=4)
def _seen(found: Iterable[Sequence[str]], shown: Sequence[Path], kept: Path | None) -> _Sockets:
    return frozenset(
        (number, path)
        for number, name in found
        if name.startswith("/")
        for path in [Path(os.path.realpath(name))]
        if not any(map(path.is_relative_to, EMPTY)) or any(map(path.is_relative_to, shown))
        if kept is None or not path.is_relative_to(kept)
    )


# What a program has left in the places that are empty for a check.
#
# It may be at work still, and hostile: no symbolic link is followed, and the list has an end.  What
# is mounted there is not the program's.

_LEFT_MAX: Final = 4096


def left_in(lies: Mapping[Path, Path]) -> LeftFiles:
    """The files that hold something, and the symbolic links, in each place, by where it `lies`."""
    errors: list[OSError] = []
    found = list(islice(_found(lies, errors), _LEFT_MAX + 1))
    return LeftFiles(tuple(found[:_LEFT_MAX]), bool(errors) or len(found) > _LEFT_MAX)


def _found(lies: Mapping[Path, Path], errors: list[OSError]) -> Iterator[str]:
    for place, below in lies.items():
        if not below.is_dir() or (place.exists() and below.samefile(place)):
            continue  # the host's own is shown there, which nothing writes to
        device = below.stat().st_dev
        for folder, folders, names, fd in os.fwalk(below, onerror=errors.append):
            shown = place / Path(folder).relative_to(below)
            for name in sorted([*names, *folders]):
                try:
                    status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                except OSError:  # it has gone
                    continue
                if status.st_dev != device:
                    folders.remove(name) if name in folders else None
                elif stat.S_ISLNK(status.st_mode) or _holds(status):
                    yield printable(str(shown / name))


def _holds(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_size > 0
