# SPDX-License-Identifier: Apache-2.0
"""A pytest of its own, as a project that uses powercut has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_pytest(folder: Path, *argv: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """Runs pytest in `folder`, which is its root."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", str(folder), *argv],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env=environment,
    )
