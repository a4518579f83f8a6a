# SPDX-License-Identifier: Apache-2.0
"""Which of several disks is to blame, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from powercut.store.disk_share import DiskShare


def blamed(disks: Sequence[DiskShare]) -> list[str]:
    """A sentence for each disk that lied, or was sent no flush, where another did and was not."""
    if not any(disk.flushes > disk.ignored for disk in disks):
        return []
    return [sentence for disk in disks if (sentence := _of(disk))]


def _of(disk: DiskShare) -> str:
    if disk.ignored:
        return (
            f"Disk {disk.name} ignored {disk.ignored:,} of {disk.flushes:,} flushes and writes "
            "with FUA."
        )
    if disk.writes and not disk.flushes:
        return f"Disk {disk.name} was sent {disk.writes:,} writes and no flush."
    return ""
