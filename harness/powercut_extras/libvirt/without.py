# SPDX-License-Identifier: Apache-2.0
"""A machine that libvirt would make, as one of QEMU's; which of its settings that keeps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from powercut.model.machine import Bus
from powercut.scenario.likeness import DiskLikeness, Likeness
from powercut_extras.libvirt.definition import read_kept
from powercut_extras.libvirt.domain import Kept

_OF_LIBVIRT: Final = ("backend", "connect", "like", "qemu")
"""An emulator that a definition names is started by libvirt, if at all: it is a stranger's word."""

_CARRIED: Final = frozenset({"iothread", "queues"})
"""Of a driver; cache, io and the format are settings already."""


def without_libvirt(likeness: Likeness, why: str) -> Likeness:
    """The same machine where libvirt cannot be used, for the reason `why`."""
    dropped: dict[str, None] = {}
    disks = []
    for disk in likeness.disks:
        kept = read_kept(str(disk.settings["like"]))
        disks.append(DiskLikeness(disk.name, _settings(disk, kept)))
        dropped |= dict.fromkeys(_not_carried(kept))
        if emulator := disk.settings.get("qemu"):
            dropped[f"the emulator {emulator} (--qemu names one)"] = None
    cannot = (f"not carried over from the definition: {', '.join(dropped)}",) if dropped else ()
    first = (
        f"it runs in QEMU without libvirt ({why}), with the definition's bus, cache, io, format, "
        "queues, I/O thread and number of processors",
        *cannot,
    )
    return Likeness(likeness.machine, tuple(disks), (*first, *likeness.differs))


def _settings(disk: DiskLikeness, kept: Kept) -> dict[str, object]:
    settings = {key: value for key, value in disk.settings.items() if key not in _OF_LIBVIRT}
    bus, said = Bus(str(settings["bus"])), _said(kept)
    if "iothread" in said and bus.threaded:
        settings["iothread"] = True
    queues = said.get("queues", "")
    if queues.isdecimal() and bus.multiqueue:
        settings["queues"] = min(int(queues), int(str(settings["cpus"])))
    return settings


def _said(kept: Kept) -> dict[str, str]:
    """What the disk's driver has, and that of its controller."""
    found: dict[str, str] = {}
    for element in (kept.disk, *kept.controllers):
        if (driver := element.find("driver")) is not None:
            found |= driver.attrib
    return found


def _not_carried(kept: Kept) -> Iterator[str]:
    """What decides on a disk's requests, and QEMU is not told here."""
    yield f"the board {kept.machine}"
    if kept.cpu is not None:
        yield "the processor's model"
    for name, value in _said(kept).items():
        if name not in _CARRIED:
            yield f"{name}={value}"
    if kept.disk.find("blockio") is not None:
        yield "blockio"
