# SPDX-License-Identifier: Apache-2.0
"""Readers of what lies on disks and in files that somebody else made: images, kernels, programs."""

from __future__ import annotations

import hashlib
import io
import os
from unittest import mock

from shared import folder


def image_header(data: bytes) -> object:
    """Headers of image formats, which may name other files: the first byte says which."""
    from powercut.disk.foreign_files import refuse_foreign_files
    from powercut.model.machine import ImageFormat

    formats = list(ImageFormat)
    with folder() as place:
        (place / "image").write_bytes(data[1:])
        return refuse_foreign_files(
            place / "image", formats[(data[0] if data else 0) % len(formats)]
        )


def filesystem(data: bytes) -> object:
    """What a file system keeps where: superblocks, group descriptors, a journal's extents."""
    from powercut.recording.disk_places import places_of

    with folder() as place:
        (place / "image").write_bytes(data)
        places = places_of(place / "image")
    return [places.parts(at, data[at : at + 4096]) for at in range(0, min(len(data), 65536), 4096)]


def growing(data: bytes) -> object:
    """The table of sizes behind a file that grows."""
    from powercut.disk.growing_file import TABLE, cut_to_size

    with folder() as place:
        with (place / "image").open("wb") as file:
            file.truncate(4096 + TABLE)
            file.seek(4096)
            file.write(data)
        return cut_to_size(place / "image")


def kernel(data: bytes) -> object:
    """A kernel, packed or not, and a module."""
    from powercut.machine.guest.kernel_package import extract_vmlinux, has_pvh_entry, read_module

    if data.startswith(b"\x7fELF"):
        return has_pvh_entry(data)
    if data[0x202:0x206] == b"HdrS":
        return has_pvh_entry(extract_vmlinux(data))
    with folder() as place:
        (place / "module").write_bytes(data)
        return read_module(place / "module")


def program(data: bytes) -> object:
    """A program's symbols, and its loader."""
    from powercut_extras.audit.code_names import name_places
    from powercut_extras.suites.interpreter import with_interpreter

    with folder() as place, mock.patch.dict(os.environ, {"PATH": ""}):  # without addr2line
        (place / "program").write_bytes(data)
        name_places((str(place / "program"), at) for at in (0, 1, 1 << 12, 1 << 63))
    return with_interpreter(data, "/lib/ld.so")


def oci(data: bytes) -> object:
    """An OCI image layout: index.json, a manifest, a layer, with a NUL between each two; @N is the
    digest of the Nth behind it.
    """
    from powercut.disk.root_image import RootTree

    parts = data.split(b"\0", 2)
    with folder() as place, RootTree(scratch=place) as tree:
        blobs = place / "root" / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        names: list[bytes] = []
        for part in reversed(parts):
            for number, name in enumerate(names, 1):
                part = part.replace(b"@%d" % number, name)  # noqa: PLW2901
            digest = hashlib.sha256(part).hexdigest()
            (blobs / digest).write_bytes(part)
            names.insert(0, b"sha256:" + digest.encode())
        (place / "root" / "index.json").write_bytes(part)
        tree.add(place / "root")
        return tree.write(io.BytesIO())


TARGETS = (image_header, filesystem, growing, kernel, program, oci)
