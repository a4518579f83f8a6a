# SPDX-License-Identifier: Apache-2.0
"""Where things are: built parts, scenarios, the cache, results.

In a checkout everything lies in the checkout.  Installed with pip, what the wheel carries (built
parts, scenarios, example programs) lies in the package and is only read; images are made in
the user's cache, and results land in the folder that the user is in.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parent

SHIPPED: Final = _PACKAGE / "_shipped"
"""What a wheel carries beside the modules (setup.py puts it there); not there in a checkout."""

INSTALLED: Final = SHIPPED.is_dir()
"""Whether this is an installed wheel and not a checkout."""

ROOT: Final = SHIPPED if INSTALLED else _PACKAGE.parents[1]
"""The checkout; of a wheel the folder that has the same things at the same places."""


def _user_cache() -> Path:
    """The folder of this user's caches (XDG Base Directory Specification)."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return Path(given) if given.startswith("/") else Path("~/.cache").expanduser()


def _inside(folder: Path) -> bool:
    """Whether the caller is in `folder` or below it."""
    try:
        return Path.cwd().is_relative_to(folder)
    except FileNotFoundError:  # a folder that has been removed
        return False


BUILD: Final = Path(
    os.environ.get("POWERCUT_BUILD", _user_cache() / "powercut" if INSTALLED else ROOT / "build")
)
"""Where guest images are made, and in a checkout the built parts.  Safe to delete."""

CACHE: Final = Path(os.environ.get("POWERCUT_CACHE", BUILD / "cache"))
"""Formatted base images and guest templates, by the hash of what made them.  Safe to delete."""

PARTS: Final = SHIPPED / "parts" if INSTALLED else BUILD
"""What is built from C: `bin/`, `lib/`, the capture plugin."""

SCENARIOS: Final = ROOT / "scenarios"
"""The scenarios that powercut brings."""

RESULTS: Final = ROOT / "results" if not INSTALLED and _inside(ROOT) else Path("results")
"""Where runs land by default: in the folder that the caller is in, or in the checkout around it."""

WAL_BINARY: Final = PARTS / "bin" / "wal"
CAPTURE_PLUGIN: Final = PARTS / "nbdkit-capture-plugin.so"

REBUILD: Final = (
    "pip install --force-reinstall powercut brings it"
    if INSTALLED
    else "./powercut in the checkout builds it"
)
"""What to do about a built part that is missing or does not load."""


def launcher() -> str:
    """The program itself: what may be called from any folder."""
    if not INSTALLED:
        return str(ROOT / "powercut")
    beside = Path(sys.executable).parent / "powercut"
    return str(beside) if beside.exists() else "powercut"


def command() -> str:
    """How this powercut is called from the folder that the caller is in."""
    if INSTALLED:
        return "powercut" if shutil.which("powercut") else launcher()
    return "./powercut" if Path.cwd() == ROOT else launcher()


def from_here(path: Path) -> Path:
    """`path` as the caller would write it: relative if it lies below the current folder."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
