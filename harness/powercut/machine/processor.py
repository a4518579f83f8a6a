# SPDX-License-Identifier: Apache-2.0
"""Which processor this host has, as its kernel says it (proc_cpuinfo(5))."""

from __future__ import annotations

import contextlib
from pathlib import Path


def processor_model(path: Path = Path("/proc/cpuinfo")) -> str:
    """The model of the first processor; empty if the kernel does not say it."""
    with contextlib.suppress(OSError):
        for line in path.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return ""
