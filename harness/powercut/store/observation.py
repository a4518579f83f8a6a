# SPDX-License-Identifier: Apache-2.0
"""observation.json: what recovery gave back, as a file."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

from powercut.model.binding import Binding, check_digest
from powercut.model.errors import DamagedRecording
from powercut.model.failure import Failure
from powercut.model.json_text import parse_json
from powercut.model.named_path import openable
from powercut.model.observation import Continuation, Extent, Observation, checked_extents
from powercut.store.files import write_atomic
from powercut.wal.slots import SlotState

FORMAT: Final = "powercut-observation/1"


def observation_to_json(observation: Observation) -> dict[str, Any]:
    """`observation` as JSON; an extent is [slot, count, state, lsn, detail].

    `lines`, what a program or its check said, is in base64: it need not be text.  `later` is there
    if a program went on.
    """
    value = {
        "format": FORMAT,
        "recovered": observation.recovered,
        "complete": observation.complete,
        "failure": observation.failure,
        "cause": observation.cause.label if observation.cause else "",
        "extents": [
            [e.slot, e.count, e.state.name.lower(), e.lsn, e.detail] for e in observation.extents
        ],
    }
    if observation.lines:
        value["lines"] = base64.b64encode(observation.lines).decode()
    if observation.later is not None:
        value["later"] = {
            "first_lsn": observation.later.first_lsn,
            "attempted": observation.later.attempted,
            "acked": observation.later.acked,
            "observation": observation_to_json(observation.later.observation),
            "failure": observation.later.failure,
            "no_room": observation.later.no_room,
            "lines": base64.b64encode(observation.later.lines).decode(),
            "outside": list(observation.later.outside),
        }
    return value


def observation_from_json(value: Any) -> Observation:
    """Undoes `observation_to_json`; raises ValueError."""
    try:
        if value["format"] != FORMAT:
            raise ValueError(f"format {value['format']!r}, and this powercut reads {FORMAT!r}")
        return Observation(
            extents=checked_extents(
                Extent(int(slot), int(count), SlotState[state.upper()], int(lsn), int(detail))
                for slot, count, state, lsn, detail in value["extents"]
            ),
            recovered=_is_bool(value["recovered"]),
            complete=_is_bool(value["complete"]),
            failure=str(value["failure"]),
            cause=Failure.labelled(value["cause"]) if value.get("cause") else None,
            lines=base64.b64decode(value.get("lines", ""), validate=True),
            later=_later(value["later"]) if "later" in value else None,
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not an observation: {error!r}") from error


def _later(value: Any) -> Continuation:
    return Continuation(
        first_lsn=int(value["first_lsn"]),
        attempted=int(value["attempted"]),
        acked=int(value["acked"]),
        observation=observation_from_json(value["observation"]),
        failure=str(value["failure"]),
        no_room=_is_bool(value["no_room"]),
        lines=base64.b64decode(value["lines"], validate=True),
        outside=tuple(map(str, value["outside"])),
    )


def _is_bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"neither true nor false: {value!r}")  # noqa: TRY004
    return value


def write_observation(path: Path, observation: Observation, binding: Binding) -> None:
    """Writes `observation` of the recording `binding` to `path`; durable on return."""
    value = observation_to_json(observation)
    value |= {"binding": binding.digest.hex(), "cell": binding.cell, "seed": binding.seed}
    write_atomic(path, (json.dumps(value) + "\n").encode())


def read_observation(path: Path, binding: Binding) -> Observation:
    """Reads what `write_observation` wrote for the same recording.

    Raises DamagedRecording, also for an observation of another recording.
    """
    try:
        value = parse_json(openable(path).read_bytes())
        observation = observation_from_json(value)
        digest = bytes.fromhex(value["binding"])
        says = f"cell {value['cell']!r}, seed {value['seed']}"
    except OSError as error:
        raise DamagedRecording(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise DamagedRecording(f"{path}: {error}") from error
    check_digest(path, digest, binding, says)
    return observation
