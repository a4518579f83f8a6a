# SPDX-License-Identifier: Apache-2.0
"""Disk images that grow at their end, in a captured folder, by QEMU's own drivers.

What a commit needs is the metadata that leads to it and the file's new size.  On an honest host
nothing is lost; with `cache=unsafe` QEMU syncs nothing, and everything may be.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from growing_images import KEPT, PLAIN, record, said

from powercut.campaign.folder import judge_folder
from powercut.crash.folder_rows import Promise
from powercut.explore.folder import Limits
from powercut.explore.request import Budget

FORMATS = [
    *("qcow2", "qcow2-64k", "qcow2-lazy", "qed", "vdi", "vmdk", "vhdx", "vpc", "parallels"),
    *("backing", "raw"),
]


@pytest.mark.parametrize("name", ["vmdk", "qed"])
@pytest.mark.parametrize("cache", ["writeback", "unsafe"])
def test_what_qemu_has_synced(tmp_path: Path, name: str, cache: str) -> None:
    command = [*PLAIN, "run", name, str(tmp_path / "folder"), cache]
    recording = record(tmp_path, name, command)
    assert (tmp_path / "folder" / f"disk.{name}").stat().st_size >= 24 * 4096
    end = said(tmp_path, recording, name)
    if cache == "writeback":
        assert end == KEPT
    else:
        assert "= " not in end
    assert "= " not in said(tmp_path, recording, name, lying=True)


@pytest.mark.campaign
@pytest.mark.parametrize("cache", ["writeback", "unsafe"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format(tmp_path: Path, name: str, cache: str) -> None:
    """The table of docs/buses-and-formats.md."""
    command = [*PLAIN, "run", name, str(tmp_path / "folder"), cache]
    recording = record(tmp_path, name, command)
    limits = Limits(Budget(states=110), 120.0, seed=3)
    result = judge_folder(recording.directory, Promise.JOURNAL, limits)
    assert result.control == "LOSSY"
    broken = cache == "unsafe" or name == "qcow2-lazy"  # a finding: see there
    assert result.verdict == ("LOSSY" if broken else "SAFE"), result
