# SPDX-License-Identifier: Apache-2.0
"""Names for crash states, and the files in which they are kept.

A crash state is named by the first 12 hexadecimal digits of the SHA-256 of its
canonical JSON (no spaces, keys sorted, `policy` and `format` left out):

    {"format": "powercut-state/1", "instant": 123, "survivors": [4, 7],
     "torn": [[write, begin, end], ...], "moves": [[write, after], ...],
     "policy": "all-but-one"}

A state of a disk whose recovery was cut, too, has one member more:

    "again": {"overlay": [[offset, data compressed with zlib, in base64], ...],
              "promised": [[first LSN, last LSN], ...], "attempted": 216}

and of a program "tried": [[first, last], ...].

So the name says what the state is, not who thought of it; it has a meaning only
together with its recording.  States that may be asked for again lie in
`states/<name>.json` beside the recording, unsealed, since they follow from it.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from pathlib import Path
from typing import Any, Final, Protocol

from powercut.crash.applied import Kept
from powercut.crash.states import Again, CrashState, Move
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.named_path import openable
from powercut.model.printable import parse_json
from powercut.model.verdict import LsnRange
from powercut.store.files import host_errors, write_atomic

FORMAT: Final = "powercut-state/1"
FOLDER: Final = "states"
_OVERLAY_MAX: Final = 64 << 20  # bytes of one write
_DIGITS: Final = 12

StateRef = dict[str, Any]
"""A crash state as JSON; see `serialise`."""


class RecordingFolder(Protocol):
    """Where a recording lies."""

    @property
    def path(self) -> Path:
        """The folder."""


def serialise(state: CrashState) -> StateRef:
    """The state as a value for JSON."""
    value: StateRef = {
        "format": FORMAT,
        "instant": int(state.instant),
        "survivors": [int(write) for write in state.survivors],
        "torn": [[int(kept.write), int(kept.begin), int(kept.end)] for kept in state.torn],
        "moves": [[int(move.write), int(move.after)] for move in state.moves],
        "policy": state.policy,
    }
    if state.again:
        again: StateRef = {
            "overlay": [
                [int(offset), base64.b64encode(zlib.compress(data)).decode()]
                for offset, data in state.again.overlay
            ],
            "promised": [[int(span.first), int(span.last)] for span in state.again.promised],
            "attempted": int(state.again.attempted),
        }
        if state.again.tried:
            again["tried"] = [[int(one.first), int(one.last)] for one in state.again.tried]
        value["again"] = again
    return value


def _again(value: Any) -> Again | None:
    if value is None:
        return None
    return Again(
        overlay=tuple((_number(offset), _unpacked(data)) for offset, data in value["overlay"]),
        promised=_ranges(value["promised"]),
        attempted=_number(value["attempted"]),
        tried=_ranges(value.get("tried", [])),
    )


def _ranges(value: Any) -> tuple[LsnRange, ...]:
    return tuple(LsnRange(_number(first), _number(last)) for first, last in value)


def _unpacked(data: str) -> bytes:
    """What was compressed, unless it is more than a second cut can have written at once."""
    unpacker = zlib.decompressobj()
    plain = unpacker.decompress(base64.b64decode(data, validate=True), _OVERLAY_MAX)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError(f"a piece of more than {_OVERLAY_MAX} bytes, or cut off")
    return plain


def parse(value: object) -> CrashState:
    """The opposite of `serialise`.  Raises DamagedRecording saying what is wrong."""
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise DamagedRecording(f"not a crash state in format {FORMAT!r}")
    try:
        return CrashState(
            instant=_number(value["instant"]),
            survivors=tuple(_number(write) for write in value["survivors"]),
            torn=tuple(Kept(*(_number(n) for n in row)) for row in value["torn"]),
            moves=tuple(Move(*(_number(n) for n in row)) for row in value["moves"]),
            policy=str(value.get("policy", "")),
            again=_again(value.get("again")),
        )
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise DamagedRecording(f"not a crash state: {error!r}") from error


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is no integer")
    if not 0 <= value < 1 << 62:
        raise ValueError(f"{value} is no place, write, record or instant")
    return value


def state_id(state: CrashState) -> str:
    """The name of `state` among the states of its recording: 12 hexadecimal digits."""
    return name_of(serialise(state))


def name_of(value: StateRef) -> str:
    """The name of what `serialise` made."""
    content = {key: part for key, part in value.items() if key not in ("format", "policy")}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def path_of(recording: RecordingFolder, name: str) -> Path:
    """Where the state called `name` is kept."""
    return recording.path / FOLDER / f"{name}.json"


def save(recording: RecordingFolder, state: CrashState) -> str:
    """Keeps `state` beside the recording and returns its name.  Raises HostError."""
    return save_value(recording, serialise(state))


def save_value(recording: RecordingFolder, value: StateRef) -> str:
    """The same of a state as JSON."""
    name = name_of(value)
    path = path_of(recording, name)
    with host_errors(path):
        path.parent.mkdir(exist_ok=True)
    write_atomic(path, json.dumps(value).encode() + b"\n")
    return name


def saved(recording: RecordingFolder) -> tuple[str, ...]:
    """The names of all states that are kept beside the recording, sorted."""
    return tuple(sorted(path.stem for path in (recording.path / FOLDER).glob("*.json")))


def load(recording: RecordingFolder, name: str) -> CrashState:
    """The state called `name`, or by its first digits, or in the file of that path.

    Raises UsageError if there is none or more than one, DamagedRecording if its file
    is not what it was.
    """
    return load_value(recording, name)[0]


def load_value(recording: RecordingFolder, name: str) -> tuple[CrashState, Path, StateRef]:
    """The same with its file and what that holds."""
    path = find(recording, name)
    value = read_file(path)
    if path == path_of(recording, path.stem) and name_of(value) != path.stem:
        raise DamagedRecording(f"{path}: holds state {name_of(value)}")
    try:
        return parse(value), path, value
    except DamagedRecording as error:
        raise DamagedRecording(f"{path}: {error}") from error


def find(recording: RecordingFolder, name: str) -> Path:
    """The file of the state that `load` would read.  Raises UsageError."""
    known = saved(recording)
    matching = [one for one in known if one.startswith(name)] if re.fullmatch(r"\w+", name) else []
    if len(matching) == 1:
        return path_of(recording, matching[0])
    if not matching and Path(name).is_file():
        return Path(name)
    what = "more than one state begins" if matching else "no state kept beside the recording begins"
    raise UsageError(
        f"{what} with {name!r}",
        hint=f"kept are: {', '.join(known)}"
        if known
        else "`powercut explore` finds and keeps some",
    )


def read_file(path: Path) -> StateRef:
    """The JSON in the file `path`, if it may be that of a state.  Raises DamagedRecording."""
    try:
        value = parse_json(openable(path).read_bytes())
    except OSError as error:
        raise DamagedRecording(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise DamagedRecording(f"{path}: not JSON: {error}") from error
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise DamagedRecording(f"{path}: not a crash state in format {FORMAT!r}")
    return value
