# SPDX-License-Identifier: Apache-2.0
"""The disk at power-on: a file system, and the layers under it."""

from __future__ import annotations

import hashlib
import secrets
import threading
from dataclasses import replace
from pathlib import Path
from socket import SOCK_SEQPACKET, socketpair
from typing import Final

from powercut.disk.base import BaseImageSpec, dig_holes, ensure_base_image
from powercut.disk.capture import CaptureDisk
from powercut.disk.image_format import ensure_formatted_image
from powercut.model.binding import Binding
from powercut.model.contract import DeviceContract
from powercut.rig import commands
from powercut.rig.host_files import kernel_of, uml_release
from powercut.rig.program_guest import ProgramGuest
from powercut.rig.scratch import scratch
from powercut.scenario.settings import Parameters

_MADE_S: Final = 300.0
_OTHER: Final = 9
"""A host's file system is not the one that is in its image: by its UUID btrfs and XFS tell."""

_making = threading.Lock()


def ensure_disk_image(parameters: Parameters, cache: Path) -> Path:
    """What a cell's disk holds before its workload is set up, read-only, made if it is not in
    `cache` yet.  Raises HostError."""
    inside = ensure_formatted_image(
        commands.base_image(parameters), commands.image_format(parameters), cache
    )
    stack, size = parameters.disk.stack, parameters.disk.whole_size
    if stack is None:
        return inside
    below = ensure_base_image(BaseImageSpec(stack.formatted, size, number=_OTHER), cache)
    what = (inside.name, below.name, stack, size)
    words = repr((*what, uml_release(kernel_of(parameters)))).encode()
    digest = hashlib.sha256(words).hexdigest()[:12]
    image = inside.with_name(f"layers-{size >> 20}M-{digest}.img")
    with _making:  # trials at the same time want the same image
        return image if image.exists() else _make(parameters, inside, below, image)


def _make(parameters: Parameters, inside: Path, below: Path, image: Path) -> Path:
    """The layers over the disks of `below`, with `inside` copied through them."""
    plan = commands.recovery_plan(parameters, bytes(16))
    unfinished = image.with_suffix(f".{secrets.token_hex(8)}.tmp")
    try:
        with scratch() as folder:
            config = commands.capture_config(
                parameters, Binding(), base=below, log=folder / "log", sockets=folder
            )
            config = replace(
                config,
                log=None,
                contract=DeviceContract(volatile_cache=False),
                writes=(image.parent,),
            )
            ours, theirs = socketpair(type=SOCK_SEQPACKET)
            with ours, CaptureDisk(config) as disk:
                guest = ProgramGuest(
                    kernel_of(parameters), disk.socket, plan, folder, theirs, image=inside
                )
                with guest:
                    guest.start(timeout_s=_MADE_S)
                    guest.unmount(timeout_s=_MADE_S)
                disk.snapshot(unfinished)
        dig_holes(unfinished)
        unfinished.chmod(0o444)
        unfinished.rename(image)
    finally:
        unfinished.unlink(missing_ok=True)
    return image
