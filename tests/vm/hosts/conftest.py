# SPDX-License-Identifier: Apache-2.0
"""The wheel of this checkout, for hosts that have no checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from powercut.paths import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    source = tmp_path_factory.mktemp("source")
    subprocess.run(["git", "clone", "-q", ROOT, source], check=True)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", target, source], check=True)
    (made,) = target.iterdir()
    return made
