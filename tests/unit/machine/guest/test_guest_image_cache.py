# SPDX-License-Identifier: Apache-2.0
"""When the guest image is built again, and when it is not."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from powercut.machine.guest import image as guest_image
from powercut.machine.guest.image import current_guest_image, ensure_guest_image
from powercut.machine.guest.kernel_package import Kernel, load_kernel
from powercut.model.errors import DeadlineExceeded, HostError


@dataclass
class Parts:
    """A build folder with small stand-ins for agent, program and kernel; apt is not asked."""

    folder: Path
    asked: int = 0
    offline: bool = False
    release: str = "6.1.0-1-test"
    lists: Path = field(init=False)

    def __post_init__(self) -> None:
        (self.folder / "bin").mkdir()
        (self.folder / "bin/agent").write_bytes(b"agent")
        (self.folder / "bin/wal").write_bytes(b"wal")
        self.lists = self.folder / "lists"
        self.lists.mkdir()

    def kernel(self, flavour: str, *, deadline: float) -> Kernel:
        assert flavour == "cloud"
        assert deadline > time.monotonic()
        self.asked += 1
        if self.offline:
            raise HostError("apt has no network")
        folder = self.folder / self.release
        if not folder.exists():
            (folder / "modules").mkdir(parents=True)
            (folder / "modules/xfs.ko").write_bytes(b"\x7fELF xfs")
            (folder / "kernel").write_bytes(b"kernel " + self.release.encode())
            described = {
                "package": "p",
                "version": "1-1",
                "release": self.release,
                "orders": {"": ["xfs.ko"]},
            }
            (folder / "kernel.json").write_text(json.dumps(described))
        return load_kernel(folder)


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Parts:
    made = Parts(tmp_path)
    monkeypatch.setattr(guest_image, "_FOLDER", tmp_path / "guest")
    monkeypatch.setattr(guest_image, "_AGENT", tmp_path / "bin/agent")
    monkeypatch.setattr(guest_image, "_PROGRAMS", (tmp_path / "bin/wal",))
    monkeypatch.setattr(guest_image, "_TOOLS", ())
    monkeypatch.setattr(guest_image, "_APT_LISTS", made.lists)
    monkeypatch.setattr(guest_image, "ensure_kernel", made.kernel)
    return made


def test_built_once(parts: Parts) -> None:
    assert current_guest_image() is None
    first = ensure_guest_image()
    assert ensure_guest_image() == first == current_guest_image()
    assert parts.asked == 1
    assert first.kernel.read_bytes() == b"kernel 6.1.0-1-test"
    assert first.kernel_release == "6.1.0-1-test"
    assert b"\x7fELF xfs" in first.initramfs.read_bytes()
    assert b"/modules/xfs.ko\n" in first.initramfs.read_bytes()


@pytest.mark.parametrize("program", ["agent", "wal"])
def test_other_program_other_image(parts: Parts, program: str) -> None:
    first = ensure_guest_image()
    (parts.folder / "bin" / program).write_bytes(b"changed")
    assert current_guest_image() is None
    second = ensure_guest_image()
    assert second.digest != first.digest
    assert b"changed" in second.initramfs.read_bytes()
    assert first.initramfs.exists()  # a run that uses it goes on


def test_other_kernel_other_image(parts: Parts) -> None:
    first = ensure_guest_image()
    parts.release = "6.1.0-2-test"
    assert ensure_guest_image() == first  # apt's lists are the same, so apt is not asked
    (parts.lists / "new").touch()
    assert ensure_guest_image().kernel_release == "6.1.0-2-test"


def test_the_same_bytes_of_another_package_are_called_by_that_one(parts: Parts) -> None:
    """As a kernel given by its path may be the distribution's own."""
    first = ensure_guest_image()
    same = replace(parts.kernel("cloud", deadline=float("inf")), package="built", version="")
    again = guest_image._build(same, (parts.folder / "bin/wal",))
    assert (again.digest, again.package) == (first.digest, "built")
    assert ensure_guest_image().package == current_guest_image().package == "p 1-1"
    described = json.loads((first.kernel.parent / "image.json").read_text())
    (first.kernel.parent / "image.json").write_text(json.dumps(described | {"package": "built"}))
    assert ensure_guest_image().package == "p 1-1"


def test_without_network_the_last_kernel_serves(parts: Parts) -> None:
    first = ensure_guest_image()
    parts.offline = True
    (parts.lists / "new").touch()
    (parts.folder / "bin/agent").write_bytes(b"changed")
    second = ensure_guest_image()
    assert second.digest != first.digest
    assert second.kernel_release == first.kernel_release


def test_without_network_and_without_kernel(parts: Parts) -> None:
    parts.offline = True
    with pytest.raises(HostError, match="apt has no network"):
        ensure_guest_image()


def test_missing_program_is_named(parts: Parts) -> None:
    (parts.folder / "bin/wal").unlink()
    with pytest.raises(HostError, match=r"not built: .*/bin/wal") as caught:
        ensure_guest_image()
    assert "./powercut" in caught.value.hint


def test_damaged_image_is_built_again(parts: Parts) -> None:
    first = ensure_guest_image()
    whole = first.initramfs.read_bytes()
    first.initramfs.write_bytes(whole[:-1])
    assert current_guest_image() is None
    second = ensure_guest_image()
    assert second.initramfs.read_bytes() == whole


def test_callers_at_once_build_once(parts: Parts) -> None:
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(ensure_guest_image())) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1
    assert parts.asked == 1


def test_waiting_for_another_builder_ends(parts: Parts) -> None:
    with (
        guest_image._lock(time.monotonic() + 60),
        pytest.raises(DeadlineExceeded, match="another process has been building"),
    ):
        ensure_guest_image(timeout_s=0.2)
    ensure_guest_image()
