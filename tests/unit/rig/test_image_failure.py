# SPDX-License-Identifier: Apache-2.0
"""An I/O error in a recovered guest: of the format's driver, or of the disk below it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from powercut.model.failure import Failure
from powercut.model.machine import ImageFormat
from powercut.model.observation import Continuation, Observation
from powercut.rig.image_failure import told_of_image
from powercut.scenario.settings import MachineSettings
from powercut.wal.layout import LayoutKind, WalLayout
from powercut.workload.wal.promises import check_state

LAYOUT = WalLayout(LayoutKind.RAW, 4096, 4096, 1 << 20)
FAILED = Observation.failed(Failure.DISK_FAILED, "read: Input/output error")
STUCK = replace(
    Observation(()), later=Continuation(5, 4, 4, Observation(()), "write: Operation not supported")
)

pytestmark = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="no qemu-utils")


def made(folder: Path, image_format: str) -> Path:
    image = folder / "image"
    argv = ["qemu-img", "create", "-q", "-f", image_format, str(image), "16M"]
    subprocess.run(argv, check=True)
    return image


def machine(image_format: str, *options: str) -> MachineSettings:
    return MachineSettings(format=ImageFormat(image_format), format_options=options)


def test_the_driver_is_named_with_the_tools_word_and_the_page(tmp_path: Path) -> None:
    image = made(tmp_path, "qcow2")
    with image.open("r+b") as file:  # the refcount of the first cluster, which holds the header
        file.seek(0x20000)
        file.write(bytes(2))
    seen = told_of_image(FAILED, image, machine("qcow2", "lazy_refcounts=on"), timeout_s=60)
    assert seen.cause is Failure.IMAGE_FAILED
    assert "QEMU's driver of the format qcow2 that failed the request" in seen.failure
    assert "ERROR cluster 0 refcount=0 reference=1" in seen.failure
    assert seen.failure.endswith("known: docs/findings/qemu-qcow2-lazy-refcounts.md")
    (found,) = check_state([], 0, seen, LAYOUT)
    assert found.verdict.name == "INCONCLUSIVE"
    assert "host's own disk" not in found.message
    # No page of findings is known of other images.
    plain = told_of_image(FAILED, image, machine("qcow2"), timeout_s=60)
    assert "docs/findings" not in plain.failure


def test_so_it_is_where_the_workload_cannot_go_on(tmp_path: Path) -> None:
    seen = told_of_image(STUCK, made(tmp_path, "vhdx"), machine("vhdx"), timeout_s=60)
    assert (seen.cause, seen.recovered) == (None, True)
    assert seen.later is not None
    assert seen.later.failure.startswith("write: Operation not supported; the storage below")
    assert "`qemu-img check` says: No errors were found on the image." in seen.later.failure
    assert seen.later.failure.endswith("known: docs/findings/qemu-vhdx-log.md")


def test_a_disk_that_fails_itself_stays_one(tmp_path: Path) -> None:
    image = made(tmp_path, "qcow2")
    settings = machine("qcow2")
    no_room = replace(STUCK, later=replace(STUCK.later, no_room=True))
    well = replace(STUCK, later=replace(STUCK.later, failure=""))
    for seen, file, kind in (
        (FAILED, tmp_path, settings),  # which cannot be read
        (FAILED, image, machine("raw")),
        (no_room, image, settings),
        (well, image, settings),
    ):
        assert told_of_image(seen, file, kind, timeout_s=60) == seen
