# SPDX-License-Identifier: Apache-2.0
"""Crash states as a person names them.

A state is named by

- its identifier, or the first digits of it, as `powercut explore` prints it;
- `durable@T`: at instant T nothing but what had to be there;
- `everything@T`: at instant T everything that had been issued;
- `ack:N`: durable-only just after record or operation N was acknowledged;

and of a disk by

- `cut`: the medium as the live cut really left it (what it leaves of a folder is everything);
- `medium@T`: what the medium really held at instant T, a full cache's doing included;
- `flush:N`: durable-only just after the N-th flush completed, from 1.

T is `cut`, nanoseconds of the recording's clock, or with a unit (`12.5ms`, `3s`) the time since
the first attempt, or since a program was ready, which is what `powercut show` prints.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import ClassVar, Final, Protocol

from powercut.crash.arrays import I64
from powercut.crash.explore import InstantKind
from powercut.crash.states import CrashState, StateSpace
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.named_path import shown
from powercut.recording import state_ref
from powercut.recording.state_ref import RecordingFolder, StateRef


class Recording(Protocol):
    """One recording, opened: what verbs ask of each, whatever was recorded."""

    state_forms: ClassVar[str]
    """How its states may be named."""

    requests_word: ClassVar[str]
    """What its states have and lack."""

    @property
    def directory(self) -> RecordingFolder:
        """Where it lies."""

    @property
    def title(self) -> str:
        """What was recorded, in a few words."""

    @property
    def space(self) -> StateSpace:
        """All crash states."""

    @property
    def gaps(self) -> Sequence[str]:
        """What is missing of the evidence."""

    @property
    def imported(self) -> bool:
        """Whether its instants are places in the order of a foreign log and no times."""

    @property
    def start_ns(self) -> int:
        """The instant from which times are told."""

    @property
    def power_on_ns(self) -> int:
        """Before that there is no state."""

    @property
    def cut_ns(self) -> int | None:
        """When the power failed below it; None if it never did."""

    @property
    def at_cut(self) -> Sequence[CrashState]:
        """States that come first, whatever else is looked at."""

    def instants(self, kinds: Sequence[InstantKind]) -> I64:
        """Those after events of these kinds at which states are drawn."""

    def own_state(self, name: str) -> CrashState | None:
        """A state that only such a recording has a name for.  Raises UsageError."""

    def after_ack(self, number: int) -> int:
        """The instant just after `number` was acknowledged.  Raises UsageError if it never was."""

    def reference(self, state: CrashState) -> StateRef:
        """The state as JSON."""

    def why_not_legal(self, state: CrashState) -> list[str]:
        """Why no cut of this recording could have left the state; empty if one could."""


def resolve_state(recording: Recording, name: str) -> CrashState:
    """The state that `name` means, legal in the recording.

    Raises UsageError with the nearest names if there is none.
    """
    if (own := recording.own_state(name)) is not None:
        return own
    if by_instant := re.fullmatch(r"(durable|everything)@(.+)", name):
        instant = instant_named(recording, by_instant[2])
        return plain_state(recording.space, instant, everything=by_instant[1] == "everything")
    if name.startswith("ack:"):
        number = number_of(name.removeprefix("ack:"), name, recording.state_forms)
        return plain_state(recording.space, recording.after_ack(number), everything=False)
    return _kept(recording, name)


def instant_named(recording: Recording, text: str) -> int:
    """The instant T of a name.  Raises UsageError."""
    cut_ns = recording.cut_ns
    if text == "cut" and cut_ns is not None:
        return cut_ns
    return instant_of(text, recording.start_ns, recording.power_on_ns, cut_ns)


def state_name(recording: Recording, state: CrashState) -> str:
    """The identifier of the state among those of its recording."""
    return state_ref.name_of(recording.reference(state))


def save_state(recording: Recording, state: CrashState) -> str:
    """Keeps the state beside the recording and returns its name.  Raises HostError."""
    return state_ref.save_value(recording.directory, recording.reference(state))


def state_text(recording: Recording, state: CrashState) -> str:
    """What the state is, for a person."""
    survivors = survivors_text(recording.space, state, recording.requests_word)
    text = f"{_at_text(recording, state.instant)}: {survivors}"
    return text + (f", {len(state.moves)} out of order" if state.moves else "")


def _at_text(recording: Recording, instant: int) -> str:
    if recording.imported:
        return f"instant {instant} of the log's order"
    name = "the cut, " if instant == recording.cut_ns else ""
    return f"{name}{(instant - recording.start_ns) / 1e6:.3f} ms"


def _kept(recording: Recording, name: str) -> CrashState:
    try:
        state, path, value = state_ref.load_value(recording.directory, name)
    except UsageError as error:
        known = [*state_ref.saved(recording.directory), *recording.state_forms.split(", ")]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
        listed = f"nearest: {', '.join(near)}; " if near else f"{error.hint}; "
        hint = f"{listed}STATE is {recording.state_forms}"
        raise UsageError(f"{error}", hint=hint) from error
    if state_ref.name_of(value) != state_name(recording, state):
        raise DamagedRecording(f"{path}: it is no state of such a recording")
    if problems := recording.why_not_legal(state):
        raise DamagedRecording(
            f"state {name} is none that this recording permits: {problems[0]}",
            hint="it belongs to another recording, or was changed",
        )
    return state


# Crash states at an instant: what a person writes to name one, and what they are told of it.

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
