# SPDX-License-Identifier: Apache-2.0
"""Crash states of a captured folder, as a person names them.

A state is named by

- its identifier, or the first digits of it, as `powercut capture` and `explore` print it;
- `durable@T`: at instant T nothing but what had to be there;
- `everything@T`: at instant T everything that had been issued;
- `ack:N`: durable-only just after operation N was acknowledged.

T is `cut`, nanoseconds of the recording's clock, or with a unit (`12.5ms`) the time since the
program was ready, else since its first attempt.  No state is called `cut`: what the cut leaves on
the host is everything.

A state is kept as powercut.recording.state_ref has it, with one member more, the promise of names
under which it is legal: its writes are numbered by that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from powercut.crash.folder import FolderSpace
from powercut.crash.folder_rows import Promise
from powercut.crash.legality import why_illegal
from powercut.crash.states import CrashState
from powercut.model.errors import DamagedRecording, UsageError
from powercut.recording import state_ref
from powercut.recording.folder import CaptureRecording
from powercut.recording.instants import instant_of, number_of, plain_state, survivors_text
from powercut.store.folder import CaptureDir

STATE_FORMS: Final = "durable@T, everything@T, ack:N, or a state's identifier; T may be `cut`"
_PROMISE: Final = "promise"


@dataclass(frozen=True)
class NamedState:
    """A state, under the promise that it is legal under."""

    name: str
    state: CrashState
    promise: Promise


def value_of(state: CrashState, promise: Promise) -> state_ref.StateRef:
    """The state as JSON."""
    return {**state_ref.serialise(state), _PROMISE: promise.value}


def state_name(state: CrashState, promise: Promise) -> str:
    """The name of the state among those of its recording."""
    return state_ref.name_of(value_of(state, promise))


def save_state(directory: CaptureDir, state: CrashState, promise: Promise) -> str:
    """Keeps the state beside the recording and returns its name.  Raises HostError."""
    return state_ref.save_value(directory, value_of(state, promise))


def resolve_folder_state(
    recording: CaptureRecording, name: str, promise: Promise | None = None
) -> NamedState:
    """The state that `name` means, under `promise`; by default its own, else that of the verdict.

    Raises UsageError if there is none, DamagedRecording if it is none of this recording.
    """
    by_instant = re.fullmatch(r"(durable|everything)@(.+)", name)
    by_number = re.fullmatch(r"ack:(.+)", name)
    if by_instant or by_number:
        promise = promise or promise_of(recording.directory)
        space = recording.space(promise)
        if by_number:
            instant = _after_ack(recording, by_number[1], name)
            state = plain_state(space, instant, everything=False)
        else:
            assert by_instant is not None
            instant = _instant(recording, by_instant[2])
            state = plain_state(space, instant, everything=by_instant[1] == "everything")
        return NamedState(name, state, promise)
    return _kept(recording, name, promise)


def promise_of(directory: CaptureDir) -> Promise:
    """That of the verdict; without one the promise of a journal."""
    result = directory.find_result()
    return Promise.JOURNAL if result is None else Promise(result.promise)


def folder_state_text(recording: CaptureRecording, space: FolderSpace, state: CrashState) -> str:
    """What the state is, for a person."""
    at = (state.instant - recording.start_ns) / 1e6
    name = "the cut, " if state.instant == recording.record.cut_ns else ""
    return f"{name}{at:.3f} ms: {survivors_text(space, state, 'writes and changes')}"


def _kept(recording: CaptureRecording, name: str, promise: Promise | None) -> NamedState:
    try:
        path = state_ref.find(recording.directory, name)
    except UsageError as error:
        raise UsageError(str(error), hint=f"{error.hint}; STATE is {STATE_FORMS}") from error
    try:
        value = state_ref.read_value(path)
        state = state_ref.parse(value)
        assert isinstance(value, dict)
        own = Promise(value.get(_PROMISE))
    except DamagedRecording as error:
        raise DamagedRecording(f"{path}: {error}") from error
    except ValueError as error:
        raise DamagedRecording(f"{path}: it is no state of a captured folder") from error
    found = state_name(state, own)
    if path == state_ref.path_of(recording.directory, path.stem) and found != path.stem:
        raise DamagedRecording(f"{path}: holds state {found}")
    if promise not in (None, own):
        raise UsageError(
            f"state {name} is one of the promise {own.value}", hint=f"--promise {own.value}"
        )
    problems = why_illegal(recording.space(own), state)
    if state.again is not None:
        problems.append("a folder is not cut again")
    if problems:
        raise DamagedRecording(
            f"state {name} is none that this recording permits: {problems[0]}",
            hint="it belongs to another recording, or was changed",
        )
    return NamedState(found, state, own)


def _instant(recording: CaptureRecording, text: str) -> int:
    cut = recording.record.cut_ns
    if text == "cut":
        return cut
    return instant_of(text, recording.start_ns, int(recording.folder.begin_ns), cut)


def _after_ack(recording: CaptureRecording, text: str, name: str) -> int:
    number = number_of(text, name, STATE_FORMS)
    history = recording.history
    acks = np.flatnonzero(history.acked == number)
    if not len(acks):
        count = len(history.acked)
        raise UsageError(
            f"operation {number} was never acknowledged",
            hint=f"{count} were" if count else "nothing was acknowledged",
        )
    return int(history.ack_ns[acks[0]]) + 1
