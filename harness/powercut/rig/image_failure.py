# SPDX-License-Identifier: Apache-2.0
"""Requests that failed although the storage below the image answered: QEMU's format driver did it.

A guest is told of an I/O error, whoever made it.  If its disk is an image in a format, and the file
of that image can be read to its end and written, the driver of the format has refused: the
image's metadata is not as it has to be.  The host's disk is none of the matter then.  What the
verdict is does not change by that.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

from powercut.disk.image_format import check_image_file
from powercut.model.errors import HostError
from powercut.model.failure import Failure
from powercut.model.machine import ImageFormat
from powercut.model.observation import Observation
from powercut.scenario.settings import MachineSettings

_KNOWN: Final = {
    (ImageFormat.QCOW2, "lazy_refcounts=on"): "docs/findings/qemu-qcow2-lazy-refcounts.md",
    (ImageFormat.VHDX, ""): "docs/findings/qemu-vhdx-log.md",
}
"""Pages of findings by format and the option that it takes."""

_FREE: Final = 64 << 20
"""Bytes that must be free where the image lies, or its growth may have failed for want of them."""

_BLOCK: Final = 1 << 20
_SECTOR: Final = 512
_SHOWN: Final = 300


def told_of_image(
    seen: Observation, image: Path, machine: MachineSettings, *, timeout_s: float
) -> Observation:
    """`seen`, of a guest whose disk was the image in the file `image`, with the driver named where
    it was the driver that failed a request."""
    later = seen.later
    stuck = later is not None and later.failure != "" and not later.no_room
    failed = Failure.DISK_FAILED in (seen.cause, later.observation.cause if later else None)
    if machine.format is ImageFormat.RAW or not (stuck or failed) or not _answers(image):
        return seen
    words = driver_words(image, machine, timeout_s=timeout_s)
    if later is not None:
        failure = f"{later.failure}; {words}" if stuck else later.failure
        later = replace(later, failure=failure, observation=_named(later.observation, words))
    return replace(_named(seen, words), later=later)


def driver_words(image: Path, machine: MachineSettings, *, timeout_s: float) -> str:
    """That the format's driver failed a request, what `qemu-img check` says, and the page of
    findings where one is known."""
    kind = machine.format
    try:
        check = check_image_file(image, kind, timeout_s=timeout_s)
    except HostError as error:
        check = f"{error}"
    check = " ".join(check.split())
    said = check if len(check) <= _SHOWN else f"{check[:_SHOWN]}..."
    words = [
        "the storage below the image answers, so it was QEMU's driver of the format "
        f"{kind.value} that failed the request",
        f"`qemu-img check` says: {said}" if check else f"`qemu-img check` knows no {kind.value}",
    ]
    pages = [
        page
        for (image_format, option), page in _KNOWN.items()
        if image_format is kind and (not option or option in machine.format_options)
    ]
    return "; ".join([*words, *(f"known: {page}" for page in pages)])


def _named(seen: Observation, words: str) -> Observation:
    if seen.cause is not Failure.DISK_FAILED:
        return seen
    return replace(seen, cause=Failure.IMAGE_FAILED, failure=f"{seen.failure}; {words}")


def _answers(image: Path) -> bool:
    """Whether the file can be read to its end, written, and made longer."""
    try:
        with image.open("r+b") as file:
            while file.read(_BLOCK):
                pass
            file.seek(0)
            first = file.read(_SECTOR)
            file.seek(0)
            file.write(first)
            file.flush()
            os.fsync(file.fileno())
        return shutil.disk_usage(image.parent).free >= _FREE
    except OSError:
        return False
