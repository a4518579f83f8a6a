# SPDX-License-Identifier: Apache-2.0
"""A guest of QEMU's on a disk image that grows, in a captured folder."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from growing_images import KEPT, record, said

from powercut.crash.folder_rows import Promise, SizeChange
from powercut.machine.port import GuestImage
from powercut.paths import ROOT

GUEST = ROOT / "tests" / "support" / "growing_guest.py"

pytestmark = pytest.mark.vm


def test_what_a_guest_has_synced_is_in_an_image_that_grew(
    tmp_path: Path, guest_image: GuestImage
) -> None:
    command = [sys.executable, str(GUEST), str(guest_image.kernel), "vmdk"]
    recording = record(tmp_path, "vmdk", [*command, str(tmp_path / "folder")])
    space = recording.under(Promise.POSIX).space
    sizes = [row.change.size for row in space.rows if isinstance(row.change, SizeChange)]
    assert sizes == sorted(sizes)
    assert len(sizes) > 24  # one at least for each commit, and what it was at first
    assert said(tmp_path, recording, "vmdk") == KEPT
    assert "= " not in said(tmp_path, recording, "vmdk", lying=True)
