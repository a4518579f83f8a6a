# SPDX-License-Identifier: Apache-2.0
"""Image formats: what is made of a base image, and that it is found broken when it is."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from powercut.disk.base import BaseImageSpec
from powercut.disk.image_format import (
    FormatSpec,
    capture_size,
    convert_argv,
    ensure_formatted_image,
    open_image,
    open_image_file,
    repair_image_file,
    run_qemu_img,
)
from powercut.model.errors import HostError
from powercut.model.machine import ImageFormat

SIZE = 16 << 20
FORMATS = [each for each in ImageFormat if each is not ImageFormat.RAW]
EMPTY = BaseImageSpec("", SIZE)

needs_tools = pytest.mark.skipif(
    not (shutil.which("qemu-img") and shutil.which("nbdkit")), reason="no qemu-utils or no nbdkit"
)


@contextmanager
def served(image: Path, folder: Path) -> Iterator[Path]:
    """The image on a socket, as NBD, writable."""
    socket, ready = folder / "nbd", folder / "ready"
    command = ["nbdkit", "-f", "-P", str(ready), "-U", str(socket), "file", str(image)]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not ready.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.005)
        yield socket
    finally:
        process.kill()
        process.wait()


def qemu_io(socket: Path, image_format: ImageFormat, *commands: str) -> str:
    node = f"driver={image_format.value},file.driver=nbd,file.server.type=unix,"
    words = [word for command in commands for word in ("-c", command)]
    argv = ["qemu-io", "--image-opts", f"{node}file.server.path={socket}", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_formats_that_cannot_grow_are_allocated_in_full():
    source, target = Path("a"), Path("b")
    qcow2 = FormatSpec(ImageFormat.QCOW2, ("cluster_size=4096", "lazy_refcounts=on"))
    assert convert_argv(qcow2, source, target) == [
        *("qemu-img", "convert", "-f", "raw", "-O", "qcow2"),
        *("-o", "cluster_size=4096,lazy_refcounts=on", "a", "b"),
    ]
    assert "-S" in convert_argv(FormatSpec(ImageFormat.VMDK), source, target)
    assert convert_argv(FormatSpec(ImageFormat.VPC), source, target)[-4:] == [
        *("-o", "force_size=on", "a", "b")
    ]


def test_the_captured_disk_has_room_where_it_helps():
    assert capture_size(FormatSpec(ImageFormat.QCOW2), 4097, 64 << 20) == (80 << 20) + 8192
    assert capture_size(FormatSpec(ImageFormat.QED), 4097, 64 << 20) == 8192


@needs_tools
@pytest.mark.parametrize("image_format", FORMATS)
def test_every_block_of_the_disk_can_be_written_through_a_disk_of_fixed_size(
    image_format, tmp_path
):
    image = ensure_formatted_image(EMPTY, FormatSpec(image_format), tmp_path / "cache")
    assert image.stat().st_blocks * 512 < 1 << 20, "zeroes must be holes"
    assert image.stat().st_mode & 0o222 == 0
    copy = tmp_path / "copy"
    shutil.copyfile(image, copy)
    with served(copy, tmp_path) as socket:
        assert qemu_io(socket, image_format, "length") == "16 MiB\n"
        qemu_io(socket, image_format, f"write -P 7 0 {SIZE}", "flush")
        assert "mismatch" not in qemu_io(socket, image_format, f"read -P 7 0 {SIZE}")
        opened = open_image(socket, image_format, timeout_s=60)
    assert opened.problem == ""
    # The rest of the disk is to parallels what its file has in excess.
    sound = ("No errors were found", "waste of disk space, but no harm to data")
    assert any(words in opened.check for words in sound) == image_format.checked


@needs_tools
@pytest.mark.parametrize("image_format", [each for each in FORMATS if not each.grows])
def test_the_others_really_cannot_grow(image_format, tmp_path):
    """If this fails QEMU has learned it: let the format grow (`ImageFormat.grows`)."""
    image = tmp_path / "image"
    image.touch()
    create = ["qemu-img", "create", "-q", "-f", image_format.value, str(image), str(SIZE)]
    run_qemu_img(create, files=[image])
    os.truncate(image, 4 * SIZE)
    node = f"driver={image_format.value},file.driver=nbd,file.server.type=unix"
    with served(image, tmp_path) as socket:
        argv = ["qemu-io", "--image-opts", f"{node},file.server.path={socket}", "-c", "write 8M 1M"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert "write failed" in done.stdout + done.stderr


@needs_tools
@pytest.mark.parametrize("image_format", FORMATS)
def test_an_image_whose_header_is_gone_does_not_open(image_format, tmp_path):
    image = tmp_path / "image"
    shutil.copyfile(
        ensure_formatted_image(EMPTY, FormatSpec(image_format), tmp_path / "cache"), image
    )
    with image.open("r+b") as file:
        file.write(bytes(1 << 20))
    with served(image, tmp_path) as socket:
        assert open_image(socket, image_format, timeout_s=60).problem


@needs_tools
@pytest.mark.parametrize("header", [True, False], ids=["whole", "without a header"])
def test_parallels_opens_once_its_user_has_repaired_it_and_only_if_it_can_be(header, tmp_path):
    """As QEMU has it, killed while the image was open."""
    kind, image = ImageFormat.PARALLELS, tmp_path / "image"
    create = ["qemu-img", "create", "-q", "-f", kind.value, str(image), str(SIZE)]
    subprocess.run(create, check=True)
    words = ["qemu-io", "-f", kind.value, "-c", "write -P 7 0 1M", "-c", "sigraise 9", str(image)]
    assert subprocess.run(words, check=False, capture_output=True).returncode == -signal.SIGKILL
    assert "was not closed correctly" in open_image_file(image, kind, timeout_s=60).problem
    if not header:
        with image.open("r+b") as file:
            file.write(bytes(64))
    said = repair_image_file(image, kind, timeout_s=60)
    assert ("image was not closed correctly" in said) == header
    assert (open_image_file(image, kind, timeout_s=60).problem == "") == header


@needs_tools
def test_an_image_is_made_once_for_each_set_of_options(tmp_path):
    plain = ensure_formatted_image(EMPTY, FormatSpec(ImageFormat.QCOW2), tmp_path)
    made_ns = plain.stat().st_mtime_ns
    again = ensure_formatted_image(EMPTY, FormatSpec(ImageFormat.QCOW2), tmp_path)
    assert (again, again.stat().st_mtime_ns) == (plain, made_ns)
    small = FormatSpec(ImageFormat.QCOW2, ("cluster_size=4096",))
    assert ensure_formatted_image(EMPTY, small, tmp_path) != plain
    assert len(list((tmp_path / "base").iterdir())) == 3


@needs_tools
def test_the_tool_says_what_it_does_not_like(tmp_path):
    wrong = FormatSpec(ImageFormat.QCOW2, ("cluster_size=5000",))
    with pytest.raises(HostError, match="power of two") as caught:
        ensure_formatted_image(EMPTY, wrong, tmp_path)
    assert "format_options" in caught.value.hint
    assert [p for p in (tmp_path / "base").iterdir() if p.suffix == ".tmp"] == []
