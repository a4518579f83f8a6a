# SPDX-License-Identifier: Apache-2.0
"""What each of several disks was asked before a cut, as the judge of the trial stored it."""

from __future__ import annotations

from powercut.store.record import Record


class DiskShare(Record):
    """The requests of one disk that completed before the cut."""

    name: str
    """What the scenario calls it; `first` is the disk of `disk.size`."""

    writes: int
    """Writes, write-zeroes and discards."""

    flushes: int
    """Flushes, and writes with FUA."""

    ignored: int
    """How many of these it ignored."""
