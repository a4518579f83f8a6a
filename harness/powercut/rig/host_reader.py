# SPDX-License-Identifier: Apache-2.0
"""The log reader on this host, for raw logs: no guest is asked.

The image that it reads is a file that powercut made.  So whatever cannot be read of it, or is
not there, is this host's failure and says nothing about the disk under test.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from powercut.channel.ledger import Collection, Ledger
from powercut.channel.wire import Decoder
from powercut.model.errors import HostError, PowercutError, UsageError
from powercut.model.failure import Failure
from powercut.model.observation import Extent, Observation
from powercut.paths import REBUILD
from powercut.scenario.settings import Parameters
from powercut.wal.layout import SlotState
from powercut.workload.port import ReadsBareDisk, Run
from powercut.workload.table import workload_of


def read_on_host(
    parameters: Parameters, run_id: bytes, medium: Path, *, timeout_s: float
) -> Observation:
    """Reads what lies on a bare disk from an image of the surviving medium, without a guest."""
    reader = workload_of(parameters).reader(Run(run_id))
    return run_reader(reader_on_host(parameters, reader, medium), timeout_s=timeout_s)


def reader_on_host(parameters: Parameters, reader: Sequence[str], image: Path) -> tuple[str, ...]:
    """The command line of a recorded `reader` for the bare disk in `image`.

    Raises UsageError if it runs in a guest alone.
    """
    workload = workload_of(parameters)
    if not isinstance(workload, ReadsBareDisk):
        raise UsageError(
            f"what a workload of kind {parameters.workload.kind} leaves on a bare disk can only be "
            "read in a guest",
            hint="--engine guest; or give it a file system",
        )
    return workload.reader_on_host(reader, image)


def run_reader(argv: Sequence[str], *, timeout_s: float) -> Observation:
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
