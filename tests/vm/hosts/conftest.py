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


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as `python -m build` makes it, of an sdist, each in an environment of its own."""
    folder = tmp_path_factory.mktemp("published")
    subprocess.run(["git", "clone", "-q", ROOT, folder / "source"], check=True)
    subprocess.run([sys.executable, "-m", "venv", folder / "tools"], check=True)
    tools, made = folder / "tools/bin", folder / "dist"
    subprocess.run([tools / "pip", "install", "-q", "build", "twine"], check=True)
    build = [tools / "python", "-m", "build", "-o", made, folder / "source"]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([tools / "twine", "check", "--strict", *made.iterdir()], check=True)
    (found,) = made.glob("*.whl")
    return found
