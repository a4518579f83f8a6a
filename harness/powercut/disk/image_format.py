# SPDX-License-Identifier: Apache-2.0
"""Disks inside image formats: a base image for the capture disk, and what becomes of it.

The capture disk serves the file that holds the format; QEMU stacks its format driver on
that.  So the format's own metadata is written through the captured disk, and is at stake
in a power cut like everything else.

An NBD export cannot grow.  Formats that can allocate within a disk of fixed size get
room for all their blocks and metadata; the others are allocated in full beforehand
(`ImageFormat.grows`).  An image whose file may grow lies on its disk as such
(powercut.disk.growing_file), and nothing of it is allocated beforehand.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from powercut.disk.base import BaseImageSpec, dig_holes, ensure_base_image
from powercut.disk.growing_file import put_on_disk
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.machine import IMAGE_REPAIR, ImageFormat
from powercut.sandbox.confined import find_tool, run_confined

_TIMEOUT_S: Final = 120.0
_ALIGN: Final = 4096
_IMPLIED: Final = {ImageFormat.VPC: ("force_size=on",)}
"""VPC otherwise rounds the disk's size up to whole cylinders."""


@dataclass(frozen=True)
class FormatSpec:
    """A format and the options of `qemu-img create -o`, one `name=value` each.

    `file_grows` says that the image is a file which its user makes longer; an `overlay` is empty,
    and lies over another image (powercut.disk.backing).
    """

    format: ImageFormat = ImageFormat.RAW
    options: tuple[str, ...] = ()
    file_grows: bool = False
    overlay: bool = False

    @property
    def all_options(self) -> tuple[str, ...]:
        """The options with those that make the guest's disk as large as was asked for."""
        named = {option.partition("=")[0] for option in self.options}
        implied = _IMPLIED.get(self.format, ())
        return (*self.options, *(o for o in implied if o.partition("=")[0] not in named))


def convert_argv(spec: FormatSpec, source: Path, target: Path) -> list[str]:
    """The command that puts the raw image `source` into the format."""
    argv = ["qemu-img", "convert", "-f", "raw", "-O", spec.format.value]
    if not (spec.format.grows or spec.file_grows):
        argv += ["-S", "0"]  # nothing stays unallocated
    if spec.all_options:
        argv += ["-o", ",".join(spec.all_options)]
    return [*argv, str(source), str(target)]


def create_argv(spec: FormatSpec, size: int, target: Path) -> list[str]:
    """The command that makes an empty image in the format, for a disk of `size` bytes."""
    options = ["-o", ",".join(spec.all_options)] if spec.all_options else []
    return ["qemu-img", "create", "-q", "-f", spec.format.value, *options, str(target), str(size)]


def capture_size(spec: FormatSpec, file_size: int, guest_size: int) -> int:
    """Bytes of the captured disk for an image of `file_size` with a disk of `guest_size` in it.

    Room for every block once more and, generously, for metadata: an eighth and 8 MiB.
    """
    room = guest_size + guest_size // 8 + (8 << 20) if spec.format.grows else 0
    return -(-(file_size + room) // _ALIGN) * _ALIGN


_making = threading.Lock()


def ensure_formatted_image(base: BaseImageSpec, spec: FormatSpec, cache: Path) -> Path:
    """The disk of `base` inside `spec`, read-only, made if it is not in `cache` yet.

    Raises HostError with the tool's words if it refuses the options.
    """
    raw = ensure_base_image(base, cache)
    if spec.format is ImageFormat.RAW:
        return raw
    argv = _making_argv(base, spec, Path("SOURCE"), Path("TARGET"))
    what = repr((raw.name, argv, run_qemu_img(["qemu-img", "--version"]))).encode()
    digest = hashlib.sha256(what).hexdigest()[:12]
    kind = f"{spec.format.value}{'-grows' if spec.file_grows else ''}"
    image = raw.with_name(f"{raw.stem}-{kind}-{digest}.img")
    with _making:  # trials at the same time want the same image
        return image if image.exists() else _make(base, spec, raw, image, cache)


def _making_argv(base: BaseImageSpec, spec: FormatSpec, raw: Path, target: Path) -> list[str]:
    if spec.overlay:
        return create_argv(spec, base.size, target)
    return convert_argv(spec, raw, target)


def _make(base: BaseImageSpec, spec: FormatSpec, raw: Path, image: Path, cache: Path) -> Path:
    own = secrets.token_hex(8)  # others, in a container, may have the same process id
    unfinished = image.with_suffix(f".{own}.tmp")
    try:
        unfinished.touch()  # the sandbox has room for files that are there
        argv = _making_argv(base, spec, raw, unfinished)
        run_qemu_img(argv, files=[unfinished], reads=[raw], from_outside=bool(spec.options))
        if spec.file_grows:
            put_on_disk(unfinished, base.size)
        else:
            size = capture_size(spec, unfinished.stat().st_size, base.size)
            with unfinished.open("r+b") as file:
                file.truncate(size)
        dig_holes(unfinished)  # what is allocated in full is zeroes for the most part
        unfinished.chmod(0o444)
        unfinished.rename(image)
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError(
            f"cannot make the image {image}: {error}",
            hint=f"check the free space under {cache}",
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return image


def run_qemu_img(
    argv: list[str],
    *,
    files: Sequence[Path] = (),
    reads: Sequence[Path] = (),
    from_outside: bool = False,
) -> str:
    """What the tool says, which sees `files` and `reads` and nothing else of the host.

    Raises HostError if it is missing or fails.
    """
    done = _run(argv, _TIMEOUT_S, files, reads, from_outside=from_outside)
    if done.returncode:
        raise HostError(
            f"{argv[0]} failed with status {done.returncode}: {done.stderr.strip()}",
            hint=f"check machine.format_options; it ran: {' '.join(argv)}",
        )
    return done.stdout


@dataclass(frozen=True)
class ImageOpening:
    """What came of opening an image after a cut.

    `problem` is empty if it opens.  `check` is what `qemu-img check` said before anything
    was repaired, empty where the format has no check.
    """

    problem: str
    check: str
    repairs: str


def open_image(socket: Path, image_format: ImageFormat, *, timeout_s: float) -> ImageOpening:
    """Opens the image that is served by NBD on `socket` for writing and closes it again.

    Whatever QEMU repairs or replays when it opens an image is repaired or replayed.
    Raises HostError if the tools are missing or do not end; a server that does not answer
    counts as an image that does not open, so ask it first.
    """
    server = {"driver": "nbd", "server": {"type": "unix", "path": str(socket.absolute())}}
    return _checked(_node(image_format, server), socket, image_format, timeout_s)


def open_image_file(
    file: Path, image_format: ImageFormat, *, timeout_s: float, check: bool = False
) -> ImageOpening:
    """As `open_image`, for an image in a file; its check is by request."""
    node = {"driver": "file", "filename": str(file.absolute())}
    image = _node(image_format, node)
    if check:
        return _checked(image, file, image_format, timeout_s)
    return _opened(image, file, timeout_s)


def repair_image_file(file: Path, image_format: ImageFormat, *, timeout_s: float) -> str:
    """Repairs an image that its user has to repair before QEMU opens it; what the tool says.

    Whether that was enough says `open_image_file`, not the tool's status.  Raises HostError if the
    tool is missing or does not end.
    """
    node = {"driver": "file", "filename": str(file.absolute())}
    argv = [*IMAGE_REPAIR.split(), _node(image_format, node)]
    done = _run(argv, timeout_s, [file])
    return (done.stdout + done.stderr).strip()


def _node(image_format: ImageFormat, file: dict[str, Any]) -> str:
    return f"json:{json.dumps({'driver': image_format.value, **image_format.alone, 'file': file})}"


def _checked(image: str, place: Path, image_format: ImageFormat, timeout_s: float) -> ImageOpening:
    check = _check(image, place, image_format, timeout_s)
    return replace(_opened(image, place, timeout_s), check=check)


def check_image_file(file: Path, image_format: ImageFormat, *, timeout_s: float) -> str:
    """What `qemu-img check` says of an image in a file; empty if it does not know the format.

    Raises HostError if the tool is missing or does not end.
    """
    node = {"driver": "file", "filename": str(file.absolute())}
    return _check(_node(image_format, node), file, image_format, timeout_s)


def _check(image: str, place: Path, image_format: ImageFormat, timeout_s: float) -> str:
    if not image_format.checked:
        return ""
    asked = _run(["qemu-img", "check", image], timeout_s, [place])
    return (asked.stdout + asked.stderr).strip()


def _opened(image: str, place: Path, timeout_s: float) -> ImageOpening:
    opened = _run(["qemu-io", "-c", "length", image], timeout_s, [place])
    said = opened.stderr.strip()
    if opened.returncode:
        return ImageOpening(said or "no reason given", "", "")
    return ImageOpening("", "", said)


def open_base(image: Path, image_format: ImageFormat, *, timeout_s: float) -> str:
    """Opens the image in a file for reading; what the tool says if it does not open, or "".

    Raises HostError if the tool is missing or does not end.
    """
    node = {"driver": "file", "filename": str(image.absolute())}
    argv = ["qemu-io", "-r", "-c", "length", _node(image_format, node)]
    done = _run(argv, timeout_s, reads=[image])
    return (done.stderr.strip() or "no reason given") if done.returncode else ""


def _run(
    argv: list[str],
    timeout_s: float,
    files: Sequence[Path] = (),
    reads: Sequence[Path] = (),
    *,
    from_outside: bool = True,
) -> subprocess.CompletedProcess[str]:
    if find_tool(argv[0]) is None:
        raise HostError(f"{argv[0]} is not installed", hint="apt-get install qemu-utils")
    try:
        done = run_confined(
            argv, timeout_s=timeout_s, files=files, reads=reads, from_outside=from_outside
        )
    except DeadlineExceeded:
        raise HostError(f"{argv[0]} did not end within {timeout_s:.0f} s") from None
    if done.returncode == -signal.SIGKILL:  # a bad image makes it fail, or abort
        raise HostError(f"{argv[0]} was killed by the host", hint="is there enough memory?")
    return done
