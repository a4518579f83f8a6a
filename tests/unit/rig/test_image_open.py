# SPDX-License-Identifier: Apache-2.0
"""An image that does not open is lost only if the host could have opened it."""

from pathlib import Path

import pytest
from patience import AMPLE_S

from powercut.disk.image_format import ImageOpening, open_base, run_qemu_img
from powercut.model.errors import HostError
from powercut.model.machine import ImageFormat
from powercut.rig import image_open

BROKEN, FINE = ImageOpening("not in qcow2 format", "", ""), ImageOpening("", "", "")


@pytest.fixture
def opening(monkeypatch):
    def play(*opened, base=""):
        left = list(opened)
        monkeypatch.setattr(image_open.nbd, "examine", lambda *_, **__: None)
        monkeypatch.setattr(image_open, "open_image", lambda *_, **__: left.pop(0))
        monkeypatch.setattr(image_open, "open_base", lambda *_, **__: base)
        found = image_open.open_after_cut(Path("s"), Path("b"), ImageFormat.QCOW2, timeout_s=1)
        assert not left
        return found

    return play


def test_an_image_that_opens_is_asked_once(opening):
    assert opening(FINE) is FINE


def test_an_image_that_does_not_open_twice_is_lost(opening):
    assert opening(BROKEN, BROKEN) is BROKEN


def test_an_image_that_opens_at_the_second_try_is_trouble(opening):
    with pytest.raises(HostError, match="opened when it was tried again"):
        opening(BROKEN, FINE)


def test_a_host_that_does_not_open_the_image_of_before_the_run_is_trouble(opening):
    with pytest.raises(HostError, match="neither the image of before"):
        opening(BROKEN, base="Cannot allocate memory")


def test_the_image_of_before_the_run_is_opened_for_reading(tmp_path):
    image = tmp_path / "base,1.qcow2"
    image.touch()
    run_qemu_img(["qemu-img", "create", "-q", "-f", "qcow2", str(image), "1M"], files=[image])
    image.chmod(0o444)
    assert open_base(image, ImageFormat.QCOW2, timeout_s=AMPLE_S) == ""
    empty = tmp_path / "empty"
    empty.write_bytes(bytes(1 << 20))
    assert "not in qcow2 format" in open_base(empty, ImageFormat.QCOW2, timeout_s=AMPLE_S)
