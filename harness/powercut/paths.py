# SPDX-License-Identifier: Apache-2.0
"""Where things are in a checkout: built parts, the cache, results."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
"""The checkout."""

BUILD: Final = Path(os.environ.get("POWERCUT_BUILD", ROOT / "build"))
"""What the launcher builds: `bin/`, the capture plugin, guests.  Safe to delete."""

CACHE: Final = Path(os.environ.get("POWERCUT_CACHE", BUILD / "cache"))
"""Formatted base images and guest templates, by the hash of what made them.  Safe to delete."""

SCENARIOS: Final = ROOT / "scenarios"
RESULTS: Final = ROOT / "results"
WAL_BINARY: Final = BUILD / "bin" / "wal"
CAPTURE_PLUGIN: Final = BUILD / "nbdkit-capture-plugin.so"
