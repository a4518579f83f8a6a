# SPDX-License-Identifier: Apache-2.0
"""The command lines of the WAL workload's program, and where its log lies.  Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from powercut.model.machine import BackingImage, ImageFormat
from powercut.scenario.settings import FilesystemType, Layout, Parameters, wal_settings
from powercut.wal.layout import LayoutKind, WalLayout
from powercut.workload.port import MOUNT_POINT

WAL_IN_GUEST: Final = "/bin/wal"
CHANNEL_IN_GUEST: Final = "channel=fd:3"

EARLIER_SLOTS: Final = 256
"""Records of an earlier log in a backing image: more than a trial of such a cell writes."""


def wal_layout(parameters: Parameters) -> WalLayout:
    """Where each record belongs."""
    workload = wal_settings(parameters)
    layout = WalLayout(
        kind=LayoutKind(workload.layout.value),
        record=workload.record,
        align=workload.align,
        capacity=0 if workload.layout is Layout.APPEND else workload.capacity,
        segment=workload.segment if workload.layout is Layout.SEGMENTS else 0,
        mapped=parameters.machine.format is not ImageFormat.RAW,
    )
    raw = parameters.filesystem.type is FilesystemType.RAW
    if not raw or parameters.machine.backing_image is BackingImage.NONE:
        return layout
    return replace(layout, earlier=min(layout.slots, EARLIER_SLOTS))


def log_path(parameters: Parameters) -> str:
    """The log as the guest names it: device, file, or folder of segments."""
    if parameters.filesystem.type is FilesystemType.RAW:
        return f"/dev/{parameters.machine.bus.device}"
    segments = wal_settings(parameters).layout is Layout.SEGMENTS
    return f"{MOUNT_POINT}/{'segments' if segments else 'log'}"


def layout_arguments(parameters: Parameters, run_id: bytes, path: str) -> tuple[str, ...]:
    """What the writer and the reader of a log must be told alike."""
    layout = wal_layout(parameters)
    arguments = [
        f"run_id={run_id.hex()}",
        f"layout={layout.kind.value}",
        f"path={path}",
        f"record={layout.record}",
        f"align={layout.align}",
    ]
    if layout.capacity:
        arguments.append(f"capacity={layout.capacity}")
    if layout.segment:
        arguments.append(f"segment={layout.segment}")
    return tuple(arguments)


def write_arguments(
    parameters: Parameters, run_id: bytes, *, first_lsn: int = 1, pings: bool = False
) -> tuple[str, ...]:
    """The writer in the guest, path first; with `pings` it answers those that come."""
    workload = wal_settings(parameters)
    arguments = [
        WAL_IN_GUEST,
        "write",
        *layout_arguments(parameters, run_id, log_path(parameters)),
        f"sync={workload.sync.value}",
        f"direct={int(workload.direct)}",
        f"engine={workload.engine.value}",
        f"streams={workload.streams}",
        f"batch={workload.batch}",
        f"depth={workload.depth}",
        f"records={workload.records}",
        f"think_us={workload.think // 1000}",
    ]
    if first_lsn > 1:
        arguments.append(f"first_lsn={first_lsn}")
    if pings:
        arguments.append("pings=1")
    if workload.plant != "none":
        arguments.append(f"plant={workload.plant}")
    return (*arguments, CHANNEL_IN_GUEST)


def read_arguments(parameters: Parameters, run_id: bytes) -> tuple[str, ...]:
    """The reader in the guest, path first."""
    layout = layout_arguments(parameters, run_id, log_path(parameters))
    return (WAL_IN_GUEST, "read", *layout, CHANNEL_IN_GUEST)


def continuation(parameters: Parameters, run_id: bytes, records: int) -> tuple[str, ...]:
    """The writer that continues after a recovery by so many records."""
    workload = wal_settings(parameters)
    return (
        WAL_IN_GUEST,
        "write",
        *layout_arguments(parameters, run_id, log_path(parameters)),
        f"sync={workload.sync.value}",
        f"direct={int(workload.direct)}",
        f"streams={workload.streams}",
        f"batch={workload.batch}",
        f"records={records}",
        CHANNEL_IN_GUEST,
    )
