# SPDX-License-Identifier: Apache-2.0
"""The proof of an accelerator: a real guest, its deadline, and nothing left behind."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from powercut.machine.port import GuestImage
from powercut.machine.qemu import accelerator
from powercut.machine.qemu.accelerator import accelerator_proof, best_accelerator, prove
from powercut.model.machine import Accelerator

pytestmark = pytest.mark.usefixtures("nothing_is_left")
PATIENCE_S = 120.0


def test_guest_boots_with_tcg(guest_image: GuestImage) -> None:
    proof = prove(Accelerator.TCG, guest_image, timeout_s=PATIENCE_S)
    assert proof.ok
    assert proof.detail.startswith("a probe guest said hello after ")


def test_guest_that_says_nothing(guest_image: GuestImage, tmp_path: Path) -> None:
    # A kernel without an initramfs panics, and says so on a console that nobody watches.
    empty = tmp_path / "initramfs"
    empty.write_bytes(b"")
    silent = dataclasses.replace(guest_image, initramfs=empty)
    proof = prove(Accelerator.TCG, silent, timeout_s=1.0)
    assert not proof.ok
    assert "said nothing within 1 s" in proof.detail


def test_qemu_that_gives_up(guest_image: GuestImage, tmp_path: Path) -> None:
    missing = dataclasses.replace(guest_image, kernel=tmp_path / "no-kernel")
    proof = prove(Accelerator.TCG, missing, timeout_s=PATIENCE_S)
    assert not proof.ok
    assert proof.detail.startswith("the probe guest's QEMU gave up: ")
    assert "no-kernel" in proof.detail


def test_best_accelerator_has_a_reason(guest_image: GuestImage) -> None:
    kind, reason = best_accelerator()
    assert kind is Accelerator.KVM or "KVM does not work here: " in reason


def test_proof_is_kept_until_asked_again(
    guest_image: GuestImage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(accelerator, "CACHE", tmp_path)
    boots = []
    real = prove

    def counted(*arguments: object, **options: object) -> accelerator.Proof:
        boots.append(arguments)
        return real(*arguments, timeout_s=PATIENCE_S)  # type: ignore[arg-type]

    monkeypatch.setattr(accelerator, "prove", counted)
    first = accelerator_proof(Accelerator.TCG)
    assert accelerator_proof(Accelerator.TCG) == first
    assert len(boots) == 1
    assert accelerator_proof(Accelerator.TCG, fresh=True).ok
    assert len(boots) == 2
    monkeypatch.setattr(accelerator, "qemu_version", lambda: "another QEMU")
    accelerator_proof(Accelerator.TCG)
    assert len(boots) == 3


def test_probe_dies_with_who_started_it(guest_image: GuestImage) -> None:
    # The agent waits 10 s for a disk that never comes, so the probe is still there to be seen.
    script = f"""
from pathlib import PosixPath
import powercut.machine.qemu.accelerator as a
from powercut.machine.port import GuestImage
a._APPEND += " powercut.disk=never"
a.prove(a.Accelerator.TCG, {guest_image!r}, timeout_s=60)
"""
    parent = subprocess.Popen([sys.executable, "-c", script])
    deadline = time.monotonic() + PATIENCE_S
    while not (probes := _children_of(parent.pid)):
        assert time.monotonic() < deadline
        assert parent.poll() is None
        time.sleep(0.01)
    parent.send_signal(signal.SIGKILL)
    parent.wait(timeout=PATIENCE_S)
    while any(_alive(pid) for pid in probes):
        assert time.monotonic() < deadline, "the probe guest has outlived its parent"
        time.sleep(0.01)


def _children_of(pid: int) -> list[int]:
    """QEMUs that a thread of `pid` has started: setpriv has become QEMU by then."""
    found = []
    children = Path(f"/proc/{pid}/task").glob("*/children")
    for child in " ".join(path.read_text() for path in children).split():
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/comm").read_text().startswith("qemu-system"):
                found.append(int(child))
    return found


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (OSError, IndexError):
        return False
