# SPDX-License-Identifier: Apache-2.0
"""Opens an image after a cut, and tells an image that is lost from a host that is.

The tools say in words alone why an image does not open.  So an image is held to be lost only
if it does not open twice, and the image of before the run opens in between.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from powercut.disk.growing_file import cut_to_size
from powercut.disk.image_format import ImageOpening, open_base, open_image, open_image_file
from powercut.machine import nbd
from powercut.mapped import mapped, stretches
from powercut.model.errors import HostError
from powercut.model.failure import Failure
from powercut.model.machine import ImageFormat
from powercut.recover.port import ImageWrite
from powercut.rig.scratch import scratch


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
        raise _neither_opens(said)
    nbd.examine(socket, timeout_s=timeout_s)
    if not open_image(socket, image_format, timeout_s=timeout_s).problem:
        raise _not_repeated(opened)
    return opened


def open_grown_after_cut(
    medium: Path, base: Path, image_format: ImageFormat, *, timeout_s: float
) -> ImageOpening:
    """The same for an image in a file that grows: `medium` is a copy of the disk on which it lies.

    Nothing changes in `medium`: what opens the image repairs or replays a copy.  Raises
    HostError if the host may be at fault, DamagedRecording if no such file is on the disk.
    """
    opened = _open_grown(medium, image_format, timeout_s=timeout_s)
    if not opened.problem:
        return opened
    if said := base_does_not_open(base, image_format, grows=True, timeout_s=timeout_s):
        raise _neither_opens(said)
    if not _open_grown(medium, image_format, timeout_s=timeout_s).problem:
        raise _not_repeated(opened)
    return opened


def base_does_not_open(
    base: Path, image_format: ImageFormat, *, grows: bool, timeout_s: float
) -> str:
    """What the tool says if the image of before the run does not open; "" if it does."""
    if not grows:
        return open_base(base, image_format, timeout_s=timeout_s)
    with scratch() as folder:
        copy = folder / "base.img"
        write_image(base, [], copy)
        cut_to_size(copy)
        return open_base(copy, image_format, timeout_s=timeout_s)


def _open_grown(medium: Path, image_format: ImageFormat, *, timeout_s: float) -> ImageOpening:
    copy = medium.with_name("opened.img")
    try:
        write_image(medium, [], copy)
        cut_to_size(copy)
        return open_image_file(copy, image_format, timeout_s=timeout_s, check=True)
    finally:
        copy.unlink(missing_ok=True)


def _neither_opens(said: str) -> HostError:
    return HostError(
        f"neither the image of before the run nor that of after the cut opens: {said}",
        hint="check free memory; machine.format_options may be new to this QEMU",
    )


def _not_repeated(opened: ImageOpening) -> HostError:
    return HostError(
        f"the image did not open, and opened when it was tried again: {opened.problem}",
        hint=Failure.NOT_REPEATED.remedy,
    )


# A crash state as a file: the base image with writes over it.


def write_image(base: Path, writes: Sequence[ImageWrite], target: Path) -> None:
    """A new file `target`: the base image with `writes` over it; holes stay holes.

    Raises HostError if there is no room.
    """
    try:
        with base.open("rb") as old, target.open("xb") as new:
            size = os.fstat(old.fileno()).st_size
            new.truncate(size)
            for begin, end in stretches(old.fileno(), size):
                _copy(old.fileno(), new.fileno(), begin, end)
            for write in writes:
                data = bytes(write.length) if write.data is None else write.data.tobytes()
                done = 0
                while done < len(data):
                    done += os.pwrite(new.fileno(), data[done:], write.offset + done)
    except OSError as error:
        raise HostError(
            f"{target}: {error.strerror}", hint="free some space, or set TMPDIR to where there is"
        ) from error


def _copy(old: int, new: int, begin: int, end: int) -> None:
    while begin < end:
        data = os.pread(old, min(1 << 20, end - begin), begin)
        begin += os.pwrite(new, data, begin)  # where the disk gets full, it writes a part first


# In what one disk image differs from another.

_PART: Final = 1 << 20
_PAGE: Final = 4096


def changed_parts(base: Path, image: Path) -> list[ImageWrite]:
    """What has to be laid over `base` to get `image`, in whole pages, rising.

    Where both have holes nothing is read.  Raises HostError if they have not the same size, or
    cannot be read.
    """
    try:
        old, new = (mapped(path) for path in (base, image))
        parts = sorted({*_parts_with_data(base), *_parts_with_data(image)})
    except (OSError, ValueError) as error:
        raise HostError(f"{base}, {image}: {error}") from error
    if len(old) != len(new):
        raise HostError(f"{image} has {len(new):,} bytes, and {base} {len(old):,}")
    writes = []
    for begin in (part * _PART for part in parts):
        before, after = old[begin : begin + _PART], new[begin : begin + _PART]
        if np.array_equal(before, after):
            continue
        for at in range(0, len(after), _PAGE):
            page = after[at : at + _PAGE]
            if not np.array_equal(page, before[at : at + _PAGE]):
                writes.append(ImageWrite(begin + at, len(page), np.array(page)))
    return writes


def _parts_with_data(path: Path) -> Iterator[int]:
    with path.open("rb") as file:
        for begin, end in stretches(file.fileno(), os.fstat(file.fileno()).st_size):
            yield from range(begin // _PART, -(-end // _PART))
