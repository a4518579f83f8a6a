# SPDX-License-Identifier: Apache-2.0
"""What tests of hostile input share: numbers at the edges, and what a parser may do with them.

A parser may return, or raise a PowercutError.  It may not raise anything else, take more than
some memory, or take longer than some time.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from powercut.model.errors import PowercutError

MEMORY_MAX = 768 << 20
SECONDS_MAX = 10

_NEAR = [
    0,
    1,
    2,
    511,
    512,
    4096,
    1 << 20,
    1 << 24,
    1 << 26,
    1 << 31,
    1 << 32,
    1 << 40,
    1 << 62,
    1 << 63,
]
EDGES = sorted({max(0, at + by) for at in [*_NEAR, 1 << 64] for by in (-1, 0, 1)})

numbers = st.one_of(st.sampled_from(EDGES), st.integers(0, 1 << 64), st.integers(0, 4096))
"""Numbers of any size, most of them where something overflows."""

SLICES = [
    pytest.param(150, id="slice"),
    pytest.param(20_000, id="campaign", marks=pytest.mark.campaign),
]
"""How many examples a target takes in the suite, and by name."""


@contextmanager
def bounded() -> Iterator[None]:
    """Fails with MemoryError or TimeoutError for what takes more than a parser may."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = pages * resource.getpagesize() + MEMORY_MAX

    def too_long(*_: object) -> None:
        raise TimeoutError(f"took longer than {SECONDS_MAX} s")

    handler = signal.signal(signal.SIGALRM, too_long)
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    signal.alarm(SECONDS_MAX)
    try:
        yield
    finally:
        signal.alarm(0)
        resource.setrlimit(resource.RLIMIT_AS, before)
        signal.signal(signal.SIGALRM, handler)


def survives(call: Callable[[], Any]) -> Any:
    """What `call` returns, None where it refuses."""
    with bounded(), suppress(PowercutError):
        return call()
    return None


def fuzz(strategy: st.SearchStrategy[Any], check: Callable[[Any], Any], examples: int) -> None:
    """Calls `check` with values of `strategy`; the same ones each time in the suite."""

    @settings(
        max_examples=examples,
        derandomize=examples < 1000,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def run(value: Any) -> None:
        check(value)

    run()
