# SPDX-License-Identifier: Apache-2.0
"""The log reader on this host, for raw logs: no guest is asked.

The image that it reads is a file that powercut made.  So whatever cannot be read of it, or is
not there, is this host's failure and says nothing about the disk under test.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from powercut.channel.ledger import Collection, Ledger
from powercut.channel.wire import Decoder
from powercut.model.errors import HostError, PowercutError
from powercut.model.failure import Failure
from powercut.model.observation import Extent, Observation
from powercut.paths import REBUILD, WAL_BINARY
from powercut.scenario.settings import Parameters
from powercut.wal.slots import SlotState
from powercut.workload.wal.commands import layout_arguments


def read_on_host(
    parameters: Parameters, run_id: bytes, medium: Path, *, timeout_s: float
) -> Observation:
    """Reads a raw log from an image of the surviving medium, without a guest."""
    arguments = layout_arguments(parameters, run_id, str(medium))
    return run_reader([str(WAL_BINARY), "read", *arguments, "channel=fd:1"], timeout_s=timeout_s)


def run_reader(argv: list[str], *, timeout_s: float) -> Observation:
    """Runs the log reader on this host and decodes what it reports.

    Raises HostError if the reader cannot be run.
    """
    try:
        done = subprocess.run(argv, capture_output=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        return Observation.failed(Failure.DEADLINE, f"the log reader took over {timeout_s:g} s")
    except OSError as error:
        raise HostError(f"cannot run {argv[0]}: {error.strerror}", hint=REBUILD) from error
    ledger = Ledger()
    try:
        for message in Decoder().feed(done.stdout):
            ledger.apply(message, 0)
    except PowercutError as error:
        return _failed(f"the log reader's report: {error}")
    told = ledger.current
    whole = tuple(e for e in told.extents if e.state is not SlotState.UNREADABLE)
    if done.returncode:
        said = "; ".join(told.errors) or done.stderr.decode(errors="replace").strip()
        return _failed(f"the log reader failed with status {done.returncode}: {said}", whole)
    if trouble := _of_the_image(told, whole):
        return _failed(trouble, whole)
    return Observation(whole)


def _of_the_image(told: Collection, whole: tuple[Extent, ...]) -> str:
    """Why the image itself could not be read; empty if it could."""
    if told.facts.get("file") == "missing":
        return "the image to read is not there"
    if len(whole) < len(told.extents):
        return "this host could not read a part of the image"
    return ""


def _failed(words: str, extents: tuple[Extent, ...] = ()) -> Observation:
    return Observation.failed(Failure.HOST_READER_FAILED, words, extents)
