# SPDX-License-Identifier: Apache-2.0
"""Hosts of a fleet that are folders on this host: commands run here, with another home.

What goes wrong with one is planted: it is `dead`, or falls silent.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from powercut.closing import Closing
from powercut.machine.remote import Done, Unreachable


class HostHere(Closing):
    """A `Remote` whose commands run on this host; `home` is where its user is at home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.dead = False
        self.scripts: list[str] = []

    def connect(self, *, timeout_s: float) -> None:
        if self.dead:
            raise Unreachable(f"ssh {self.home.name}: nobody answers", hint="is it on?")

    def run(self, script: str, *, stdin: Iterable[bytes] = (), timeout_s: float) -> Done:
        self.connect(timeout_s=timeout_s)
        self.scripts.append(script)
        done = subprocess.run(
            ["sh", "-c", script],
            input=b"".join(stdin),
            capture_output=True,
            check=False,
            timeout=timeout_s,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"]},
        )
        return Done(done.returncode, done.stdout, done.stderr.decode(errors="replace"))

    def another(self) -> HostHere:
        return self

    def close(self) -> None:
        """Nothing is held open."""
