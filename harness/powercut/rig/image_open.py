# SPDX-License-Identifier: Apache-2.0
"""Opens an image after a cut, and tells an image that is lost from a host that is.

The tools say in words alone why an image does not open.  So an image is held to be lost only
if it does not open twice, and the image of before the run opens in between.
"""

from __future__ import annotations

from pathlib import Path

from powercut.disk.image_format import ImageOpening, open_base, open_image
from powercut.machine import nbd
from powercut.model.errors import HostError
from powercut.model.failure import Failure
from powercut.model.machine import ImageFormat


def open_after_cut(
    socket: Path, base: Path, image_format: ImageFormat, *, timeout_s: float
) -> ImageOpening:
    """Opens the image behind `socket` (NBD), of which `base` is what was there before the run.

    Raises HostError if the host may be at fault for an image that does not open.
    """
    nbd.examine(socket, timeout_s=timeout_s)
    opened = open_image(socket, image_format, timeout_s=timeout_s)
    if not opened.problem:
        return opened
    if said := open_base(base, image_format, timeout_s=timeout_s):
        raise HostError(
            f"neither the image of before the run nor that of after the cut opens: {said}",
            hint="check free memory; machine.format_options may be new to this QEMU",
        )
    nbd.examine(socket, timeout_s=timeout_s)
    if not open_image(socket, image_format, timeout_s=timeout_s).problem:
        raise HostError(
            f"the image did not open, and opened when it was tried again: {opened.problem}",
            hint=Failure.NOT_REPEATED.remedy,
        )
    return opened
