# SPDX-License-Identifier: Apache-2.0
"""Other files that a disk image names, which QEMU would open along with it.

A qcow2 image may name a backing file and a data file, a QED image a backing file, and what
ought to be a VMDK image may be a text that lists files.  QEMU opens what they name, writes to
data files and extents, and takes `nbd://host` for a name, too.  powercut makes images that
stand alone; one that does not was made elsewhere.

No option of QEMU's forbids a data file, so such an image is not given to QEMU at all.
Formats: docs/interop/qcow2.rst and qed_spec.rst of QEMU; VMware's Virtual Disk Format 5.0, and
block/vmdk.c for what QEMU takes a missing header for.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from powercut.model.errors import DamagedRecording, HostError
from powercut.model.machine import ImageFormat
from powercut.model.named_path import openable

_QCOW2: Final = struct.Struct(">4sIQI")  # magic, version, offset and size of the backing file
_QCOW2_INCOMPATIBLE: Final = struct.Struct(">Q")
_QCOW2_INCOMPATIBLE_AT: Final = 72
_QCOW2_DATA_FILE: Final = 1 << 2
_QED: Final = struct.Struct("<4sIIIQ")  # magic, cluster, table and header size, features
_QED_BACKING: Final = 1
_VMDK: Final = struct.Struct("<4sIIQQQ")  # magic, version, flags, capacity, grain, descriptor
_SECTOR: Final = 512
_TEXT_MAX: Final = 1 << 20  # what QEMU reads of a descriptor
_LIST: Final = b"createType"  # a text without it is no list of files to QEMU


def refuse_foreign_files(image: Path, image_format: ImageFormat) -> None:
    """Raises DamagedRecording if `image` would make QEMU open another file.

    Raises HostError if it cannot be read.
    """
    try:
        with openable(image).open("rb") as file:
            head = file.read(_TEXT_MAX)
            named = _named(head, image_format)
            if image_format is ImageFormat.VMDK:
                file.seek(_vmdk_text(head, image.stat().st_size))
                named = "files in a list" if _LIST in file.read(_TEXT_MAX) else ""
    except OSError as error:
        raise HostError(f"{image}: {error.strerror}") from error
    if named:
        raise DamagedRecording(
            f"{image}: the {image_format.value} image names {named}, which QEMU would open",
            hint="no image of powercut's does: this one was made to get at files of the host",
        )


def _named(head: bytes, image_format: ImageFormat) -> str:
    if image_format is ImageFormat.QCOW2 and len(head) >= _QCOW2_INCOMPATIBLE_AT + 8:
        magic, version, backing, size = _QCOW2.unpack_from(head)
        (features,) = _QCOW2_INCOMPATIBLE.unpack_from(head, _QCOW2_INCOMPATIBLE_AT)
        if magic == b"QFI\xfb":
            if backing or size:
                return "a backing file"
            if version >= 3 and features & _QCOW2_DATA_FILE:
                return "a data file"
    if image_format is ImageFormat.QED and len(head) >= _QED.size:
        magic, *_, features = _QED.unpack_from(head)
        if magic == b"QED\0" and features & _QED_BACKING:
            return "a backing file"
    return ""


def _vmdk_text(head: bytes, size: int) -> int:
    """Where QEMU would look for a list of files: where a header says it, else at the start.

    At the end, `size`, for nowhere.

    A header with a capacity is followed by its own data.  The text that belongs to such an
    image names the image itself, and QEMU does not go by it.
    """
    if len(head) < _VMDK.size or head[:4] != b"KDMV":
        return 0
    _, _, _, capacity, _, descriptor = _VMDK.unpack_from(head)
    return min(descriptor * _SECTOR, size) if capacity == 0 else size
