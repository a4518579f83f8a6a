# SPDX-License-Identifier: Apache-2.0
"""Waits for what a busy host slows down; for what does nothing no longer than on a quiet one."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TypeVar

from powercut.model.errors import DeadlineExceeded
from powercut.rig.processor_time import processor_seconds
from powercut.rig.set_up import Deadline

_Value = TypeVar("_Value")

_SLICE_S: Final = 5.0
_WORKS: Final = 0.005
"""Of the time of a processor: what takes less waits for nothing that this host has to do."""


def wait_patiently(
    deadline: Deadline,
    wait: Callable[[float], _Value],
    again: Callable[[float], _Value],
    what: str,
    look: Callable[[], None] = lambda: None,
) -> _Value:
    """What `wait` returns, or `again` after it, each with the seconds that it may take; `look` may
    raise in between.

    Raises DeadlineExceeded, which says that `what` did not come to be, and in what time.
    """
    while not deadline.over:
        before, slice_s = _started_seconds(), min(_SLICE_S, deadline.remaining_s)
        with suppress(DeadlineExceeded):
            return wait(slice_s)
        wait = again
        look()
        if not deadline.quiet_s and _started_seconds() - before < _WORKS * slice_s:
            break
    raise late(what, deadline)


def late(what: str, deadline: Deadline) -> DeadlineExceeded:
    """The error that says that `what` did not come to be, and in what time."""
    return DeadlineExceeded(
        f"{what} within {deadline.waited_s:.0f} s",
        hint="raise `deadline` in the scenario",
    )


def _started_seconds() -> float:
    """Processor time of all that this process has started."""
    return processor_seconds() - time.process_time()
