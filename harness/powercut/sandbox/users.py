# SPDX-License-Identifier: Apache-2.0
"""As whom root's sandboxes and servers run: as a user of the host's to whom nothing belongs.

This is the one place that decides it.  There are three ways:

1. `users_apart`: root makes the sandbox, and check-guard puts what is in it among users of their
   own, to whom it shows the files that they were given as theirs (harness/guard/users.c).  So a
   sandbox may be given what only root may read.
2. `as_another`: the sandbox is made by that user already.  It needs namespaces for ordinary users,
   and everything that the sandbox is to see must be there for all of them.

3. `serving`: a server that opens files by names that it is told later, in folders that it is given
   (harness/guard/serve.c).

Where none works, which the kernel, a file system or a folder of root's own may be the reason for,
the sandbox is root's, without capabilities, and a server root's with those that open files
(`few_powers_argv`), which QEMU and storage daemons are anyway.  Users stay who they are.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from powercut.paths import PARTS

FIRST: Final = 0x7FFF0000
"""The host's user that root of such a sandbox is: beyond those that are given to anybody."""

PROGRAMS: Final = tuple(map(Path, ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")))
"""Where the host's programs and libraries are, which sandboxes are shown."""

_SETPCAP: Final = 1 << 8
_FEW: Final = "-all,+dac_override,+dac_read_search,+ipc_lock"
_TRY_S: Final = 20.0
_GUARD: Final = "/dev/check-guard"
_READS: Final = 'for one; do test -r "$one" || exit 1; done'


@dataclass(frozen=True)
class Lowered:
    """What makes root's sandbox another user's: bubblewrap's options, behind those for /dev and in
    place of its own namespace of users, and what stands before the command: PID 1."""

    options: tuple[str, ...] = ("--unshare-user-try", "--cap-drop", "ALL")
    argv: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostView:
    """What a server of root's has of the host: what it `fills` and may write, what it `reads`, and
    a `device`; `program` is its own, where that is none of the host's.  `rings` are io_uring's."""

    fills: Collection[Path]
    reads: Collection[Path] = ()
    device: Path | None = None
    program: Path | None = None
    rings: bool = False


def guard_binary() -> Path:
    """The program that stands between a sandbox and what runs in it (harness/guard)."""
    return PARTS / "bin" / "check-guard"


def users_apart(own: Sequence[Path]) -> list[str]:
    """The guard's words for users of their own, who have what lies at each of `own`; for root.

    Empty where that cannot be had.
    """
    paths = [str(path) for path in own]
    if os.geteuid() or not _ends_well([str(guard_binary()), "--tries", *paths]):
        return []
    return ["--apart", *(word for path in paths for word in ("--own", path))]


def lowered(own: Sequence[Path], *, limited: bool = False) -> Lowered:
    """A command that has no capability; root's is another user, who has what lies at each of `own`.

    A `limited` one has the system calls of a check.  As it was where that cannot be had.
    """
    words = users_apart(own)
    if not words and not limited:
        return Lowered()
    needs = [f"CAP_{name}" for name in ("SYS_ADMIN", "SETPCAP", "SETUID", "SETGID")]
    added = [word for name in needs for word in ("--cap-add", name)]
    options = ("--cap-drop", "ALL", *added) if words else Lowered.options
    argv = [_GUARD, "--bare", *([] if limited else ["--unlimited"]), "--become", "0", *words, "--"]
    return Lowered((*options, "--ro-bind", str(guard_binary()), _GUARD), tuple(argv))


def open_above(path: Path, empty: Iterable[Path] = (Path("/"),)) -> list[str]:
    """bubblewrap's options for folders above `path` in what begins `empty`, which it would make for
    their owner alone."""
    above = [
        one
        for one in path.parents
        if any(place in one.parents for place in empty)
        and not any(map(one.is_relative_to, PROGRAMS))
    ]
    return [word for one in reversed(above) for word in ("--perms", "0755", "--dir", str(one))]


def topmost(paths: Iterable[Path]) -> list[Path]:
    """Those that lie below none of the others: what is given with all that it holds."""
    kept: list[Path] = []
    for path in sorted(paths):
        if not any(path.is_relative_to(one) for one in kept):
            kept.append(path)
    return kept


def as_another(sees: Iterable[Path]) -> list[str]:
    """What stands before a command of root's that may read no more than everybody, `sees` among it.

    Empty where that cannot be had, and for others.
    """
    if os.geteuid() or not for_all(sees) or not _namespaces_for_all():
        return []
    return as_user()


def as_user() -> list[str]:
    """What stands before a command of root's for that; empty for others."""
    if os.geteuid():
        return []
    user = [f"--reuid={FIRST}", f"--regid={FIRST}", "--clear-groups"]
    return ["setpriv", *user, "--inh-caps=-all", "--bounding-set=-all", "--"]


def serving(view: HostView) -> list[str]:
    """What stands before a server of root's that has that view.

    Its users are no users of the host.  What it makes is root's, and it ends with its parent if it
    was to.  The capabilities that open files where that cannot be had; empty for others.
    """
    if os.geteuid():
        return []
    program = view.program
    if program is not None and not for_all([program.absolute()]):
        return few_powers_argv()  # there is more of it than its file
    folders = topmost({path.absolute() for path in view.fills})
    files = {path.absolute() for path in view.reads}
    rest = (path for path in files if not any(map(path.is_relative_to, folders)))
    shown = topmost(path for path in rest if not for_all([path]))
    given = [word for path in folders for word in ("--own", str(path))]
    given += [word for path in shown for word in ("--show", str(path))]
    if view.device is not None and not for_all([view.device]):
        given += ["--device", str(view.device)]
    argv = [str(guard_binary()), "--serve", *(["--rings"] if view.rings else []), *given, "--"]
    tried = [*argv, "/bin/sh", "-c", _READS, "sh", *map(str, (*folders, *files))]
    return argv if _ends_well(tried) else few_powers_argv()


def few_powers_argv(*, mounts: bool = False) -> list[str]:
    """What stands before a command of root's that is to open files of root's, and no more, or that
    `mounts`: it has none of root's other capabilities.  Empty for others, and for a root that can
    drop none."""
    status = Path("/proc/self/status").read_text()
    has = int(status.partition("CapEff:")[2].split(maxsplit=1)[0], 16)
    if os.geteuid() or not has & _SETPCAP:
        return []
    kept = f"{_FEW},+sys_admin" if mounts else _FEW
    return ["setpriv", f"--bounding-set={kept}", "--inh-caps=-all", "--no-new-privs", "--"]


def for_all(paths: Iterable[Path]) -> bool:
    """Whether every user may read those of them that are there."""
    return all(_is_for_all(path) for path in paths)


def _is_for_all(path: Path) -> bool:
    try:
        mode = path.stat().st_mode
        passed = [one.stat().st_mode for one in _passed(path)]
    except OSError:
        return True  # it is missing, whoever looks
    wanted = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
    wanted |= stat.S_IWOTH if stat.S_ISSOCK(mode) else 0
    return mode & wanted == wanted and all(one & stat.S_IXOTH for one in passed)


def _passed(path: Path) -> set[Path]:
    """Every folder that a look-up of `path` passes, those of its links among them.

    There is something of that name: links without end would not lead to it.
    """
    at, passed = Path("/"), {Path("/")}
    left = [*path.absolute().parts[:0:-1]]
    while left:
        part = left.pop()
        one = at.parent if part == ".." else at / part
        if one.is_symlink():
            target = one.readlink()
            at = Path("/") if target.is_absolute() else at
            left += [part for part in reversed(target.parts) if part != "/"]
        elif left:
            at = one
            passed.add(at)
    return passed


@cache
def _namespaces_for_all() -> bool:
    view = ["--unshare-all", "--unshare-user", "--ro-bind", "/", "/"]
    return _ends_well([*as_user(), "bwrap", *view, "/bin/true"])


def _ends_well(argv: Sequence[str]) -> bool:
    try:
        done = subprocess.run(argv, capture_output=True, timeout=_TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
