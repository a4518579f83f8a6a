# SPDX-License-Identifier: Apache-2.0
"""Crash states at an instant: what a person writes to name one, and what they are told of it."""

from __future__ import annotations

import re
from typing import Final

from powercut.crash.states import CrashState, StateSpace
from powercut.model.errors import UsageError
from powercut.model.named_path import shown

_UNITS_NS: Final = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def instant_of(text: str, start_ns: int, power_on_ns: int, cut_ns: int | None) -> int:
    """Nanoseconds of the recording's clock: `text` is these, or a time since `start_ns`.

    Raises UsageError, also for what lies before power-on or after the cut.
    """
    match = re.fullmatch(r"(\d{1,19})|(-?\d{1,19}(?:\.\d{1,19})?)(ns|us|µs|ms|s)", text)
    if match is None:
        raise UsageError(
            f"{shown(text)!r} is no instant",
            hint="give nanoseconds of the recording's clock, or a time since the first attempt "
            "such as 12.5ms",
        )
    since = 0 if match[1] else round(float(match[2]) * _UNITS_NS[match[3]])
    instant = int(match[1]) if match[1] else start_ns + since
    if instant < power_on_ns:
        first = (power_on_ns - start_ns) / 1e6
        raise UsageError(
            f"{text} lies before power-on", hint=f"that was at {first:.3f}ms ({power_on_ns})"
        )
    if cut_ns is not None and instant > cut_ns:
        over = (cut_ns - start_ns) / 1e6
        raise UsageError(
            f"{text} lies after the cut", hint=f"the power failed at {over:.3f}ms ({cut_ns})"
        )
    return instant


def number_of(text: str, name: str, forms: str) -> int:
    """A number from 1, as in `ack:12`; `forms` are those that a name may have.  Raises
    UsageError.
    """
    if not re.fullmatch(r"[1-9]\d{0,17}", text):
        raise UsageError(f"{name}: {text!r} is no number from 1", hint=f"STATE is {forms}")
    return int(text)


def plain_state(space: StateSpace, instant: int, *, everything: bool) -> CrashState:
    """With everything that was issued at `instant`, or with nothing but what had to be there."""
    survivors = tuple(space.volatile(instant).tolist()) if everything else ()
    return CrashState(
        instant, survivors, policy="everything-issued" if everything else "durable-only"
    )


def survivors_text(space: StateSpace, state: CrashState, what: str) -> str:
    """How much of a state is durable, survived and torn, for a person; `what` there is."""
    volatile = space.volatile(state.instant).tolist()
    kept = len(set(volatile) & set(state.survivors))
    text = f"{len(space.durable(state.instant))} durable {what}, {kept} of {len(volatile)} volatile"
    return f"{text} ones, {len(state.torn_parts)} of them torn" if state.torn else f"{text} ones"
