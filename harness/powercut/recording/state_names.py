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
from typing import ClassVar, Protocol

from powercut.crash.states import CrashState, StateSpace
from powercut.model.errors import DamagedRecording, UsageError
from powercut.recording import state_ref
from powercut.recording.instants import instant_of, number_of, plain_state, survivors_text
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
        path = state_ref.find(recording.directory, name)
    except UsageError as error:
        known = [*state_ref.saved(recording.directory), *recording.state_forms.split(", ")]
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
        listed = f"nearest: {', '.join(near)}; " if near else f"{error.hint}; "
        hint = f"{listed}STATE is {recording.state_forms}"
        raise UsageError(f"{error}", hint=hint) from error
    state, own = state_ref.load_file(path), state_ref.name_of(state_ref.read_file(path))
    if path == state_ref.path_of(recording.directory, path.stem) and own != path.stem:
        raise DamagedRecording(f"{path}: holds state {own}")
    if own != state_name(recording, state):
        raise DamagedRecording(f"{path}: it is no state of such a recording")
    if problems := recording.why_not_legal(state):
        raise DamagedRecording(
            f"state {name} is none that this recording permits: {problems[0]}",
            hint="it belongs to another recording, or was changed",
        )
    return state
