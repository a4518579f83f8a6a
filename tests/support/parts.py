# SPDX-License-Identifier: Apache-2.0
"""Builds a part in C into a folder of the test's own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from powercut.paths import ROOT

MAKE_PART = ROOT / "harness" / "make-part"
TIMEOUT_S = 900


def make_part(folder: Path | str, build: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """What make said in `folder`, of the checkout or absolute; `build` may have any name."""
    return subprocess.run(
        [MAKE_PART, ROOT / folder, build, "-s", *arguments],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
        env={key: value for key, value in os.environ.items() if not key.startswith("MAKE")},
    )


def built(folder: Path | str, build: Path, *arguments: str) -> Path:
    """`build`, with the part in it; AssertionError with make's words if it does not build."""
    made = make_part(folder, build, *arguments)
    assert made.returncode == 0, made.stdout + made.stderr
    return build
