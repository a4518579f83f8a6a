# SPDX-License-Identifier: Apache-2.0
"""What binds the evidence of a recording to its trial.json, and to nothing else.

The digest is SHA-256 over the canonical JSON (sorted keys, no spaces, ASCII) of what trial.json
said before the run began: scenario, digest of its text, cell, control, settings, trial with
its seeds, run id, what evidence it was to leave, and `recording`, 128 random bits, since two runs
with one seed are still two.
It is computed from the file as it is, not from what today's powercut makes of it: settings that
a later version adds change nothing.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from powercut.model.binding import Binding

_COVERED: Final = (
    "recording",
    "scenario",
    "scenario_sha256",
    "cell",
    "control",
    "parameters",
    "trial",
    "run_id",
    "evidence_level",
)


def new_recording() -> str:
    """A name for a recording that no other has: 32 hex digits."""
    return secrets.token_hex(16)


def text_digest(text: bytes) -> str:
    """The digest by which trial.json names the scenario that it was made by."""
    return hashlib.sha256(text).hexdigest()


def binding_of(trial: Mapping[str, Any]) -> Binding:
    """The binding of the recording whose trial.json is `trial`.

    Raises KeyError, TypeError or ValueError for what is no trial.json, or names no recording.
    """
    if not trial["recording"]:
        raise ValueError("it names no recording")
    named = Binding(bytes.fromhex(trial["run_id"]), int(trial["trial"]["seed"]), str(trial["cell"]))
    covered = {key: trial[key] for key in _COVERED}
    text = json.dumps(covered, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return replace(named, digest=hashlib.sha256(text.encode()).digest())
