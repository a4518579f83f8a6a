# SPDX-License-Identifier: Apache-2.0
"""The settings of the virtual machine."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, StrictInt

from powercut.model.machine import Bus, CacheMode, ImageFormat, Start
from powercut.scenario.choices import AcceleratorChoice, GuestWriteCache
from powercut.scenario.quantity import Size
from powercut.scenario.settings_base import Settings


def _is_format_option(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_.-]*=[A-Za-z0-9_.:-]+", value):
        raise ValueError("write name=value")
    return value


class MachineSettings(Settings):
    """The virtual machine."""

    cache: CacheMode = CacheMode.NONE
    """QEMU's cache mode for the disk under test."""

    bus: Bus = Bus.VIRTIO_BLK
    """How the guest reaches the disk under test."""

    format: ImageFormat = ImageFormat.RAW
    """The image format in which the hypervisor keeps the disk.  What is captured and cut is
    the file that holds the format."""

    format_options: tuple[Annotated[str, AfterValidator(_is_format_option)], ...] = ()
    """Options of the image format, as `qemu-img create -o` takes them, one `name=value` a list
    entry: `cluster_size=4096`, `lazy_refcounts=on`, `preallocation=metadata`."""

    start: Start = Start.AUTO
    """How the guest comes to run: `booted`; `restored`, from a guest that was saved after it
    had booted, as after a live migration; or `auto`, restored where that makes no difference."""

    memory: Annotated[Size, Field(ge=64 << 20)] = 128 << 20
    """RAM of the guest, in bytes or with a unit; at least 64 MiB."""

    cpus: Annotated[StrictInt, Field(ge=1, le=64)] = 1
    """Virtual processors."""

    kernel_arguments: tuple[str, ...] = ()
    """Added to the guest's kernel command line."""

    guest_write_cache: GuestWriteCache = GuestWriteCache.AS_PROMISED
    """What the guest believes of the disk's write cache: `as-promised` by the machine, or
    `write-through`, written to the guest's `queue/write_cache`, so that it stops flushing."""

    accelerator: AcceleratorChoice = AcceleratorChoice.AUTO
    """What runs the guest's instructions; `auto` takes KVM if a probe guest proves it."""
