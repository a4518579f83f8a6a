# SPDX-License-Identifier: Apache-2.0
"""What a workload said that runs anywhere, and what a check found after a cut by hand.

A folder holds `listen.json`, which names the recording, and `lines.bin` (powercut.channel.lines).
Who cut the power, and whether it went at all, nothing here shows: SURVIVED at best.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from powercut.brought import mark_results
from powercut.channel.lines import unpack
from powercut.model.binding import Binding
from powercut.model.errors import DamagedRecording, DeadlineExceeded, HostError, UsageError
from powercut.model.named_path import openable
from powercut.model.observation import Observation
from powercut.model.printable import parse_json
from powercut.workload.program.claims import history_of
from powercut.workload.program.promises import ProgramPromises

FORMAT: Final = "powercut-listen/1"


@dataclass(frozen=True)
class Listened:
    """A folder of what was heard."""

    path: Path
    binding: Binding

    @classmethod
    def make(cls, path: Path) -> Listened:
        """A new one.  Raises UsageError if the folder is there, HostError."""
        text = json.dumps({"format": FORMAT, "recording": secrets.token_hex(16)}) + "\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)  # what is in it may be the workload's own business
            mark_results(path)
            (path / "listen.json").write_text(text)
        except FileExistsError:
            raise UsageError(f"{path}: it is there already", hint="name a new folder") from None
        except OSError as error:
            raise HostError(f"{path}: {error.strerror}") from None
        return cls(path, _binding(text))

    @classmethod
    def open(cls, path: Path) -> Listened:
        """One that was made.  Raises UsageError, DamagedRecording."""
        try:
            text = openable(path / "listen.json").read_text(errors="replace")
        except OSError:
            raise UsageError(
                f"{path}: nothing was heard there", hint="`powercut listen FOLDER` listens"
            ) from None
        try:
            known = parse_json(text)["format"] == FORMAT
        except (ValueError, KeyError, TypeError):
            known = False
        if not known:
            raise DamagedRecording(f"{path / 'listen.json'}: not of format {FORMAT}")
        return cls(path, _binding(text))

    @property
    def lines(self) -> Path:
        """The history."""
        return self.path / "lines.bin"

    @property
    def promises(self) -> ProgramPromises:
        """What was claimed.  Raises DamagedRecording."""
        try:
            packets = unpack(openable(self.lines).read_bytes(), self.binding)
        except OSError as error:
            raise DamagedRecording(f"{self.lines}: {error.strerror}") from None
        return ProgramPromises(replace(history_of(packets), by_receipt=True))


def _binding(text: str) -> Binding:
    return Binding(digest=hashlib.sha256(text.encode()).digest())


def run_check(command: Sequence[str], *, timeout_s: float, used_again: bool = False) -> Observation:
    """What the check says on its standard output, and whether it ended with status 0.

    One that is `used_again` is told by POWERCUT_AFTER to write nothing that the next would find.
    Raises HostError if it cannot be started, DeadlineExceeded.
    """
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={**os.environ, "POWERCUT_FD": "1"}
            | ({"POWERCUT_AFTER": "0"} if used_again else {}),
            timeout=timeout_s,
            check=False,
        )
    except OSError as error:
        raise HostError(f"{command[0]}: cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise DeadlineExceeded(
            f"{command[0]}: it did not end within {timeout_s:g} s", hint="--seconds gives it more"
        ) from None
    failure = f"it ended with status {done.returncode}" if done.returncode else ""
    return Observation((), complete=not failure, failure=failure, lines=done.stdout)
