# SPDX-License-Identifier: Apache-2.0
"""Commands as an ordinary user, who can read this checkout wherever it lies."""

from __future__ import annotations

import os
import shlex
import stat
import sys
from pathlib import Path

from powercut.paths import BUILD, ROOT
from powercut.sandbox.users import topmost

NOBODY = 65534
_FIRST_FD = 3


def as_ordinary_user() -> list[str]:
    """What stands before a command; empty for an ordinary user.

    Root's becomes `nobody`.  A checkout below a folder that only root may enter, such as root's
    home, stays where it is: in a mount namespace of the command's own that folder is another one,
    which is open to all and has nothing but the checkout and what was built of it.
    """
    if os.geteuid():
        return []
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--"]
    shown = [path for path in _needed() if closed_above(path) is not None]
    if not shown:
        return user
    return ["unshare", "--mount", "--", "sh", "-ec", _open(shown), "sh", *user]


def closed_to_others() -> str:
    """Why root's `nobody` can read neither checkout nor what was built; empty if it can."""
    if os.geteuid():
        return ""
    above = [closed_above(path) for path in _needed()]
    closed = next((path for path in above if path is not None), None)
    return closed_itself() or (f"{closed} is closed to other users" if closed else "")


def closed_itself() -> str:
    """The same of what no namespace opens: the mode of the checkout, and of what was built."""
    both = stat.S_IROTH | stat.S_IXOTH
    closed = (path for path in _needed() if path.stat().st_mode & both != both)
    return next((f"{path} is closed to other users" for path in closed), "")


def _needed() -> list[Path]:
    return topmost({ROOT, BUILD, Path(sys.prefix), Path(sys.base_prefix)})


def closed_above(path: Path) -> Path | None:
    """The topmost folder above it that not every user may enter; None if all may."""
    above = reversed(path.parents)
    return next((one for one in above if not one.stat().st_mode & stat.S_IXOTH), None)


def _open(shown: list[Path]) -> str:
    """A script that opens those folders, then covers what is closed, then shows them there."""
    numbered = [(fd, shlex.quote(str(path))) for fd, path in enumerate(shown, _FIRST_FD)]
    closed = {shlex.quote(str(closed_above(path))) for path in shown}
    opened = [f"exec {fd}<{path}" for fd, path in numbered]
    covered = [f"mount -t tmpfs -o mode=755 none {path}" for path in sorted(closed)]
    bound = [
        f"mkdir -p {path}\nmount --no-canonicalize --bind /proc/self/fd/{fd} {path}\nexec {fd}<&-"
        for fd, path in numbered
    ]
    return "\n".join(["umask 022", *opened, *covered, *bound, 'exec "$@"'])
