# SPDX-License-Identifier: Apache-2.0
"""The frequency of the host's time-stamp counter.

A guest that is told it (`tsc_early_khz=`) need not calibrate against emulated timers,
which takes time and, on a loaded host, goes wrong: the guest then falls back to a
clock of 4 ms or does not boot at all.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

# rdtsc; shl rdx, 32; or rax, rdx; ret
_RDTSC: Final = bytes.fromhex("0f3148c1e2204809d0c3")
_WINDOW_S: Final = 0.02
_SAMPLES: Final = 8


@functools.cache
def host_tsc_khz() -> int | None:
    """In kHz, to about 10 ppm, measured once; None if the host has no constant TSC."""
    if platform.machine() != "x86_64" or "constant_tsc" not in _cpu_flags():
        return None
    try:
        code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        return None  # the host forbids memory that is writable and executable
    with code:
        code.write(_RDTSC)
        buffer = ctypes.c_char.from_buffer(code)
        read_tsc = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(buffer))
        first_ticks, first_ns = _sample(read_tsc)
        time.sleep(_WINDOW_S)
        ticks, ns = _sample(read_tsc)
        del buffer  # or the map could not be closed
    return round((ticks - first_ticks) * 1_000_000 / (ns - first_ns))


def _sample(read_tsc: Callable[[], int]) -> tuple[int, int]:
    """Counter and clock at the same moment: the pair that took the least time to read."""
    pairs = []
    for _ in range(_SAMPLES):
        before = time.monotonic_ns()
        ticks = read_tsc()
        after = time.monotonic_ns()
        pairs.append((after - before, ticks, (before + after) // 2))
    _, ticks, ns = min(pairs)
    return ticks, ns


def _cpu_flags() -> list[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []
    return next((line.split() for line in lines if line.startswith("flags")), [])
