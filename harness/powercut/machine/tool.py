# SPDX-License-Identifier: Apache-2.0
"""Runs tools of the host's that make something: apt, dpkg-deb, depmod."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Final

from powercut.model.errors import DeadlineExceeded, HostError

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
    except FileNotFoundError:
        raise HostError(f"there is no {argv[0]} on this host", hint="./powercut doctor") from None
    except subprocess.TimeoutExpired as expired:
        raise DeadlineExceeded(
            f"'{' '.join(argv)}' did not end within {expired.timeout:.0f} s"
        ) from None
    if done.returncode != 0:
        said = done.stderr.strip()[-_SAID_MAX:]
        raise HostError(
            f"'{' '.join(argv)}' failed with status {done.returncode}: {said}", hint=hint
        )
    return done.stdout
