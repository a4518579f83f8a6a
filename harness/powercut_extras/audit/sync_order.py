# SPDX-License-Identifier: Apache-2.0
"""What one `powercut audit syncs` was asked, and how far it has come: to go on with it.

The file lies beside the recording with all syncs, from when that begins.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from powercut.model.errors import UsageError
from powercut.scenario.program_text import RecordOptions
from powercut.scenario.settings import ProgramSettings
from powercut.store.layout import ResultDir
from powercut.store.record import Record, find_model
from powercut_extras.audit.stored_syncs import WithoutSync

SYNC_ORDER: Final = "audit-syncs.json"


class SyncOrder(Record):
    """The question, and the parts of the answer that are not recordings."""

    format: Literal["powercut-sync-order/1"] = "powercut-sync-order/1"
    program: ProgramSettings
    record: RecordOptions
    test: tuple[str, ...] = ()
    """The user's own test; empty for none."""

    test_s: float
    """What it may take each time."""

    sites_max: int
    jobs: int
    seed: int
    results: str
    """The folder that both runs are in."""

    without: str = ""
    """The run whose cells each lack one call site; empty before it begins."""

    tests: dict[int, WithoutSync] = Field(default_factory=dict)
    """What the user's own test said without a call site, by its number."""


def write_order(directory: ResultDir, order: SyncOrder) -> None:
    """Writes it, in place of an earlier one.  Raises HostError."""
    directory.write_file(SYNC_ORDER, order.model_dump_json(indent=1).encode())


def read_order(directory: ResultDir) -> SyncOrder:
    """Reads it.  Raises UsageError if there is none, DamagedRecording if it cannot be read."""
    order = find_model(directory.path / SYNC_ORDER, SyncOrder)
    if order is None:
        raise UsageError(
            f"{directory.path}: no `powercut audit syncs` began here",
            hint="give the folder that it named when it was interrupted",
        )
    return order
