# SPDX-License-Identifier: Apache-2.0
"""A check of a captured folder on record: what it does to the folder of a state is captured, too.

The recorder is mounted over the state, and the check runs in its sandbox on top of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from powercut.disk.folder_log import read_folder_log
from powercut.model.folder import FolderTimeline
from powercut.model.machine_identity import Boot
from powercut.model.observation import Observation
from powercut.recover.native.folder import LINES_MAX, ended_check, sandboxed_check
from powercut.rig.folder import CapturedFolder
from powercut.sandbox.printed import tail

_SAID_MAX = 2000


@dataclass(frozen=True)
class RecordedCheck:
    """What a check says, and what it has done to the folder up to its end."""

    observation: Observation
    timeline: FolderTimeline


def record_check(
    command: Sequence[str],
    state: Path,
    folder: Path,
    where: Path,
    log: Path,
    boot: Boot,
    *,
    atomic_unit: int,
    seed: int,
    timeout_s: float,
) -> RecordedCheck:
    """As powercut.recover.native.folder.FolderSandbox, recorded into LOG.log and LOG.data.

    Raises HostError, DamagedRecording.
    """
    said = bytearray()

    def hear(data: bytes) -> None:
        if len(said) <= LINES_MAX:
            said.extend(data)

    output = log.with_suffix(".txt")
    captured = CapturedFolder(
        state, log, atomic_unit=atomic_unit, seed=seed, output=output, on_said=hear
    )
    with captured:
        captured.run(sandboxed_check(command, state, folder, where, boot=boot))
        status = captured.wait_ended(timeout_s=timeout_s)
        captured.cut()
    text = bytes(said)
    if status is None:
        failure = f"it did not end within {timeout_s:.3g} s"
        observation = Observation((), complete=False, failure=failure, lines=text)
    else:
        words = tail(output, _SAID_MAX)
        observation = ended_check(status, words, text)
    return RecordedCheck(observation, read_folder_log(log))
