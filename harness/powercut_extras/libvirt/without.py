# SPDX-License-Identifier: Apache-2.0
"""A machine that libvirt would make, as one of QEMU's; which of its settings that keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from powercut.model.machine import Bus
from powercut.scenario.likeness import DiskLikeness, LeftOut, Likeness
from powercut_extras.libvirt.definition import read_kept
from powercut_extras.libvirt.domain import Kept

_OF_LIBVIRT: Final = ("backend", "connect", "like", "qemu")
"""An emulator that a definition names is started by libvirt, if at all: it is a stranger's word."""

_ONLY_LIBVIRT: Final = "only libvirt passes it on, and it is not used here"


def without_libvirt(likeness: Likeness, why: str) -> Likeness:
    """The same machine where libvirt cannot be used, for the reason `why`."""
    dropped: dict[LeftOut, None] = {}
    disks = []
    for disk in likeness.disks:
        kept = read_kept(str(disk.settings["like"]))
        disks.append(DiskLikeness(disk.name, _settings(disk, kept)))
        dropped |= dict.fromkeys(_not_carried(disk, kept, disks[-1].settings))
        if emulator := disk.settings.get("qemu"):
            dropped[LeftOut(f"the emulator {emulator}", "--qemu names one")] = None
    first = (
        f"it runs in QEMU without libvirt ({why}), with the definition's bus, cache, io, format, "
        "queues, I/O thread and number of processors"
    )
    left = (*likeness.left_out, *dropped)
    return replace(likeness, disks=tuple(disks), differs=(first, *likeness.differs), left_out=left)


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


def _not_carried(
    disk: DiskLikeness, kept: Kept, settings: Mapping[str, object]
) -> Iterator[LeftOut]:
    """What decides on a disk's requests, and QEMU is not told here."""
    yield LeftOut(f"the board {kept.machine}", _ONLY_LIBVIRT)
    if kept.cpu is not None:
        yield LeftOut("the processor's model", _ONLY_LIBVIRT)
    for word, value in _said(kept).items():
        if word not in settings:
            yield LeftOut(f"disk {disk.name}: {word}={value}", _ONLY_LIBVIRT)
    blocks = kept.disk.find("blockio")
    for word, value in blocks.attrib.items() if blocks is not None else ():
        yield LeftOut(f"disk {disk.name}: blockio {word}={value}", _ONLY_LIBVIRT)
