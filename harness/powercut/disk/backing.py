# SPDX-License-Identifier: Apache-2.0
"""Backing images: what lies below an overlay, made once and never modified.

A write to a part of an overlay's cluster copies the rest of the cluster from below.  So there is
something to copy: the file system, or, where the log lies on the device itself, a record of an
earlier log in each of the first slots (`WalLayout.earlier`).  A slot that the workload has not
come to must have it after each cut.

A recording keeps its backing image beside its base image, under its seal.  The overlay names no
file: QEMU is told what it lies over, and a recording whose images name files is refused
(powercut.disk.foreign_files).
"""

from __future__ import annotations

import hashlib
import secrets
import subprocess
import threading
from pathlib import Path
from typing import Final

from powercut.disk.base import BaseImageSpec, dig_holes, ensure_base_image
from powercut.disk.foreign_files import refuse_foreign_files
from powercut.disk.image_format import run_qemu_img
from powercut.model.errors import HostError
from powercut.model.machine import BackingImage
from powercut.wal.layout import WalLayout
from powercut.wal.record import record_bytes

NAME: Final = "backing.img"
"""In the folder of a recording."""

EARLIER_RUN: Final = b"powercut-earlier"
"""The run to which the records of the earlier log belong."""

_TIMEOUT_S: Final = 60.0

_making = threading.Lock()


def ensure_backing_image(
    base: BaseImageSpec, kind: BackingImage, log: WalLayout | None, cache: Path
) -> Path:
    """The disk of `base` in a read-only image of that kind, made if it is not in `cache` yet.

    On it lies the earlier log of `log`, if there is one.  Raises HostError.
    """
    raw = ensure_base_image(base, cache)
    tool = run_qemu_img(["qemu-img", "--version"]) if kind is BackingImage.QCOW2 else ""
    what = repr((raw.name, kind.value, log, tool)).encode()
    digest = hashlib.sha256(what).hexdigest()[:12]
    image = raw.with_name(f"{raw.stem}-below-{kind.value}-{digest}.img")
    with _making:  # trials at the same time want the same image
        return image if image.exists() else _make(raw, kind, log, image, cache)


def _make(raw: Path, kind: BackingImage, log: WalLayout | None, image: Path, cache: Path) -> Path:
    own = secrets.token_hex(8)  # others, in a container, may have the same process id
    plain = image.with_suffix(f".{own}.raw.tmp")
    unfinished = image.with_suffix(f".{own}.tmp")
    try:
        copy = ["cp", "--sparse=always", "--no-preserve=mode", str(raw), str(plain)]
        subprocess.run(copy, timeout=_TIMEOUT_S, check=True, capture_output=True)
        if log is not None:
            write_earlier_log(plain, log)
        if kind is BackingImage.RAW:
            plain.rename(unfinished)
        else:
            unfinished.touch()  # the sandbox has room for files that are there
            argv = ["qemu-img", "convert", "-f", "raw", "-O", kind.value]
            run_qemu_img([*argv, str(plain), str(unfinished)], files=[unfinished], reads=[plain])
        dig_holes(unfinished)
        unfinished.chmod(0o444)
        unfinished.rename(image)
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError(
            f"cannot make the backing image {image}: {error}",
            hint=f"check the free space under {cache}",
        ) from error
    finally:
        plain.unlink(missing_ok=True)
        unfinished.unlink(missing_ok=True)
    return image


def write_earlier_log(image: Path, log: WalLayout) -> None:
    """Writes a record of an earlier run to each slot that has one.  Raises OSError."""
    with image.open("r+b") as file:
        for lsn in range(1, log.earlier + 1):
            at = log.position_of(lsn)
            file.seek(log.offset + at)
            file.write(
                record_bytes(
                    EARLIER_RUN,
                    0,
                    lsn,
                    prev_lsn=lsn - 1,
                    generation=0,
                    position=at,
                    record_size=log.record,
                )
            )


def backing_of(base: Path, kind: BackingImage) -> Path | None:
    """The backing image of the recording whose base image is `base`; None if there is to be none.

    Raises DamagedRecording if it names other files, HostError if it is not there.
    """
    if kind is BackingImage.NONE:
        return None
    image = base.with_name(NAME)
    refuse_foreign_files(image, kind.format)
    return image
