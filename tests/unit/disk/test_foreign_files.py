# SPDX-License-Identifier: Apache-2.0
"""An image that names other files is not given to QEMU, which would open them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from powercut.disk.base import BaseImageSpec
from powercut.disk.foreign_files import refuse_foreign_files
from powercut.disk.image_format import FormatSpec, ensure_formatted_image
from powercut.model.errors import DamagedRecording
from powercut.model.machine import ImageFormat

pytestmark = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="no qemu-img")


def create(folder, image_format, *options):
    (folder / "victim").write_bytes(b"precious" * (1 << 17))
    image = folder / "image"
    argv = ["qemu-img", "create", "-q", "-f", image_format, *options, str(image), "1M"]
    subprocess.run(argv, check=True, capture_output=True, timeout=60, cwd=folder)
    return image


def opens_the_victim(image, image_format):
    """Whether QEMU, which is told nothing of other files, opens one."""
    argv = [
        "strace",
        "-f",
        "-e",
        "trace=openat,open",
        "qemu-io",
        "-f",
        image_format,
        "-c",
        "length",
    ]
    if shutil.which("strace") is None:
        return True
    done = subprocess.run(
        [*argv, str(image)], capture_output=True, text=True, timeout=60, check=False
    )
    return "victim" in done.stderr


@pytest.mark.parametrize(
    ("image_format", "options", "what"),
    [
        ("qcow2", ["-b", "victim", "-F", "raw"], "a backing file"),
        ("qcow2", ["-o", "data_file=victim,data_file_raw=on"], "a data file"),
        ("qed", ["-b", "victim", "-F", "raw"], "a backing file"),
    ],
)
def test_images_that_name_a_file(tmp_path, image_format, options, what):
    image = create(tmp_path, image_format, *options)
    assert opens_the_victim(image, image_format)
    with pytest.raises(DamagedRecording, match=what):
        refuse_foreign_files(image, ImageFormat(image_format))


def test_a_vmdk_that_is_a_list_of_files(tmp_path):
    image = create(tmp_path, "vmdk", "-o", "subformat=monolithicFlat")
    image.write_text(image.read_text().replace("image-flat", "victim"))
    assert opens_the_victim(image, "vmdk")
    with pytest.raises(DamagedRecording, match="names files in a list"):
        refuse_foreign_files(image, ImageFormat.VMDK)


def test_a_vmdk_whose_header_points_at_such_a_list(tmp_path):
    text = create(tmp_path, "vmdk", "-o", "subformat=monolithicFlat").read_bytes()
    head = b"KDMV" + (1).to_bytes(4, "little") + bytes(20) + (3).to_bytes(8, "little")
    image = tmp_path / "pointing"
    image.write_bytes(head.ljust(3 * 512, b"\0") + text)
    with pytest.raises(DamagedRecording, match="names files in a list"):
        refuse_foreign_files(image, ImageFormat.VMDK)


@pytest.mark.parametrize("image_format", list(ImageFormat))
def test_images_that_powercut_makes_name_none(tmp_path, image_format):
    spec = BaseImageSpec("ext4", 8 << 20)
    image = ensure_formatted_image(spec, FormatSpec(image_format), tmp_path)
    refuse_foreign_files(image, image_format)


@pytest.mark.parametrize("image_format", list(ImageFormat))
@pytest.mark.parametrize("content", [b"", b"Q", bytes(4096), b"KDMV", b"\xff" * 4096])
def test_what_is_no_image_is_for_qemu_to_say(tmp_path, image_format, content):
    image = tmp_path / "image"
    image.write_bytes(content)
    refuse_foreign_files(image, image_format)
