# SPDX-License-Identifier: Apache-2.0
"""Runs tools of the host's that make something: apt, dpkg-deb, depmod."""

from __future__ import annotations

import fcntl
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from powercut.model.errors import DeadlineExceeded, HostError
from powercut.paths import NOT_WRITABLE
from powercut.sandbox.confined import run_confined

_ROOT_TOOLS: Final = "/usr/sbin:/sbin"  # where depmod is, outside an ordinary user's PATH
_SAID_MAX: Final = 1000


def run_tool(argv: list[str], *, deadline: float, cwd: Path | None = None, hint: str = "") -> str:
    """Runs a tool of the host's; returns its stdout.

    `deadline` is on time.monotonic().  Raises HostError with the command, its status,
    what it said and `hint`, or DeadlineExceeded.
    """
    environment = dict(os.environ, LC_ALL="C", PATH=f"{os.environ['PATH']}:{_ROOT_TOOLS}")
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            cwd=cwd,
            env=environment,
            timeout=max(0.1, deadline - time.monotonic()),
        )
    except (FileNotFoundError, PermissionError):  # the latter for a folder of PATH that is closed
        raise HostError(
            f"there is no {argv[0]} on this host", hint="powercut doctor names the package"
        ) from None
    except subprocess.TimeoutExpired as expired:
        raise DeadlineExceeded(
            f"'{' '.join(argv)}' did not end within {expired.timeout:.0f} s"
        ) from None
    return _said(argv, done, hint)


def run_on_package(
    argv: list[str],
    *,
    deadline: float,
    reads: Sequence[Path] = (),
    folders: Sequence[Path] = (),
    from_outside: bool,
) -> str:
    """The same for a tool that works on a package: it sees `reads`, fills `folders`.

    `from_outside` says that nobody vouches for the package: apt does for those that it
    fetched.  Raises HostError, also where such a tool would run without a sandbox.
    """
    left = deadline - time.monotonic()
    done = run_confined(
        argv, timeout_s=left, reads=reads, folders=folders, from_outside=from_outside
    )
    return _said(argv, done, "")


def _said(argv: list[str], done: subprocess.CompletedProcess[str], hint: str) -> str:
    if done.returncode != 0:
        said = done.stderr.strip()[-_SAID_MAX:]
        raise HostError(
            f"'{' '.join(argv)}' failed with status {done.returncode}: {said}", hint=hint
        )
    return done.stdout


# A lock between processes that is gone with whoever held it.

_POLL_S: Final = 0.05


@contextmanager
def locked(file: Path, *, deadline: float, doing: str) -> Iterator[None]:
    """Holds `file`, which is made if it is not there; its folder, too.

    `deadline` is on time.monotonic().  Raises DeadlineExceeded, saying what the other
    process has been `doing`, and HostError if the file cannot be made.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        handle = file.open("w")
    except OSError as error:
        raise HostError(f"cannot use {file.parent}: {error.strerror}", hint=NOT_WRITABLE) from None
    with handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise DeadlineExceeded(
                        f"another process has been {doing} all the time",
                        hint=f"look for it: fuser -v {file}",
                    ) from None
                time.sleep(_POLL_S)
        yield
