# SPDX-License-Identifier: Apache-2.0
"""What a cell costs, and what went over the wire: measured in a run that ends in order.

A measured run is no cut: the workload writes a fixed number of commits and ends, the guest
is quiet, and every layer is asked what it has seen.  So the counts of the layers belong to
the same requests, and can be compared to the last one.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from powercut.scenario.choices import DiskModel
from powercut.scenario.settings import Parameters
from powercut.store.record import Record
from powercut.store.trial_result import Latency

MEASUREMENT_FORMAT: Final = "powercut-measurement/1"

_TOLERANCE: Final = 1.05
"""Times come from the guest's clock, which an emulated machine keeps to a few percent."""


class RequestCounts(Record):
    """The requests that one layer has seen during the measured commits."""

    writes: int
    """Writes, those with FUA included."""

    fua_writes: int | None
    """Writes with FUA; null where the layer does not tell them apart."""

    flushes: int
    """Flushes, those that carry no data."""

    written_bytes: int
    """Bytes of all writes."""

    kinds: dict[str, int] = Field(default_factory=dict)
    """How many of each kind in the layer's own words: `WFS`, `WS`, `FF` and so on in the
    guest's trace of its block layer (rwbs, Documentation/trace/events.rst of Linux)."""


class BioCounts(Record):
    """What the file system, or the kernel's own file of a raw device, asked of the guest's block
    layer, before that looked at what the disk is said to need (bios, as submit_bio gets them)."""

    flushes: int
    """Requests that asked for a flush before anything else (REQ_PREFLUSH), with data or
    without."""

    fua_writes: int
    """Writes that asked to be durable when they complete (REQ_FUA), those included that asked
    for a flush as well."""

    kinds: dict[str, int] = Field(default_factory=dict)
    """How many of each kind: `write`, `flush`, `fua`, `flush+fua`."""


class WireAccount(Record):
    """What the same commits looked like to each layer."""

    commits: int
    """Commits that were measured."""

    committed_bytes: int
    """Bytes of the records that they committed."""

    asked: BioCounts | None = None
    """What the guest's file system asked of its block layer; null if it could not be seen."""

    guest: RequestCounts | None
    """What the guest's block layer issued; null if its kernel has no trace of it."""

    hypervisor: RequestCounts | None
    """What the hypervisor says that it was asked for (QMP query-blockstats); null if it does
    not say."""

    disk: RequestCounts
    """What the captured disk saw."""

    uncovered: int = 0
    """Writes of the measured commits that at their end were covered by no FUA and no later
    flush that the disk saw."""

    not_durable: int = 0
    """Writes of the measured commits that by the disk's own contract were not durable at their
    end, although all had been acknowledged."""

    flush_ends_at: str = ""
    """The first layer that passes fewer promises of durability on than it was asked for:
    `workload`, `file system`, `guest block layer`, `hypervisor` or `disk`; empty if every
    layer passes all on, or what it holds back leaves nothing uncovered."""

    because: str = ""
    """How that shows, in a sentence with the counts."""

    @property
    def requests_per_commit(self) -> float:
        """Writes and flushes that the guest issued for a commit; what the disk saw, if there is
        no trace of it."""
        layer = self.guest or self.disk
        return (layer.writes + layer.flushes) / self.commits

    @property
    def bytes_per_committed_byte(self) -> float:
        """Bytes that the disk was to write for a byte of a record."""
        return self.disk.written_bytes / self.committed_bytes


class Cost(Record):
    """What commits cost on one kind of disk."""

    disk: DiskModel
    """How long the captured disk takes for a flush and for a write with FUA."""

    commits: int
    """Commits that were measured."""

    seconds: float
    """From the first to the last of them."""

    commits_per_s: float
    """Commits a second."""

    latency: Latency
    """Percentiles of the commit latency."""

    histogram: tuple[tuple[float, int], ...]
    """Commit latency: upper edge of a bucket in microseconds, and commits in it; empty
    buckets are left out."""

    medium_limit_per_s: float | None = None
    """Commits a second that the modelled medium can do at most, one stream with a flush each;
    null where it has no limit, with several streams, and without a volatile cache (plain
    writes, which take no time in a model, are durable there).  More is a symptom."""

    @property
    def too_fast(self) -> bool:
        """Whether commits came faster than the medium can make them durable."""
        limit = self.medium_limit_per_s
        return limit is not None and self.commits_per_s > limit * _TOLERANCE


class Measurement(Record):
    """measurement.json: one cell, without a cut."""

    format: Literal["powercut-measurement/1"] = MEASUREMENT_FORMAT
    """Name and version of this format."""

    scenario: str
    """Name of the scenario."""

    cell: str
    """Name of the cell."""

    parameters: Parameters
    """Every setting of the cell."""

    wire: WireAccount | None = None
    """What went over the wire; null if it could not be counted."""

    costs: tuple[Cost, ...] = ()
    """What commits cost, by kind of disk."""

    trouble: str = ""
    """Why something is missing; empty if nothing is."""
