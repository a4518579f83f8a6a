# SPDX-License-Identifier: Apache-2.0
"""Disk images that grow at their end, in a captured folder, by QEMU's own drivers.

What a commit needs is the metadata that leads to it and the file's new size.  On an honest host
nothing is lost; with `cache=unsafe` QEMU syncs nothing, and everything may be.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from growing_images import KEPT, PLAIN, record, said

from powercut.campaign.folder import judge_folder
from powercut.crash.folder_rows import Promise
from powercut.explore.request import Budget, ExploreRequest
from powercut.recording.folder import open_capture

pytestmark = pytest.mark.fuse

FORMATS = [
    *("qcow2", "qcow2-64k", "qcow2-lazy", "qed", "vdi", "vmdk", "vhdx", "vpc"),
    *("backing", "parallels", "raw"),
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


def test_the_page_of_lazy_refcounts(tmp_path: Path) -> None:
    """The lines of docs/findings/qemu-qcow2-lazy-refcounts.md do what it says."""
    image = str(tmp_path / "t.qcow2")
    options = ["-f", "qcow2"]
    subprocess.run(
        ["qemu-img", "create", "-q", *options, "-o", "lazy_refcounts=on", image, "64M"], check=True
    )
    steps = ["write -P 1 6M 4k", "flush", "write -P 2 5M 4k", "flush", "abort"]
    words = [word for step in steps for word in ("-c", step)]
    crash = "ulimit -c 0; exec qemu-io"
    subprocess.run(
        ["sh", "-c", f'{crash} "$@"', "sh", *options, *words, image],
        capture_output=True,
        check=False,
    )
    os.truncate(image, 393216)
    repaired = io(options, "write 28M 4k", image)
    if "still broken" not in repaired.stderr:
        return  # a QEMU that repairs it
    assert "00500000:  00 01 00 01 00 00 00 01" in io(options, "read -v 5M 16", image).stdout
    checked = subprocess.run(
        ["qemu-img", "check", *options, image], capture_output=True, text=True, check=False
    )
    assert "cluster 6 refcount=1 reference=2" in checked.stdout + checked.stderr


def io(options: list[str], step: str, image: str) -> subprocess.CompletedProcess[str]:
    argv = ["qemu-io", *options, "-c", step, image]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.campaign
@pytest.mark.parametrize("cache", ["writeback", "unsafe"])
@pytest.mark.parametrize("name", FORMATS)
def test_every_format(tmp_path: Path, name: str, cache: str) -> None:
    """The table of docs/buses-and-formats.md."""
    command = [*PLAIN, "run", name, str(tmp_path / "folder"), cache]
    recording = record(tmp_path, name, command)
    wanted = ExploreRequest(budget=Budget(states=110), seed=3, confirm=False)
    result = judge_folder(open_capture(recording.directory, Promise.JOURNAL), wanted, state_s=120.0)
    assert result.control == "LOSSY"
    broken = cache == "unsafe" or name in ("qcow2-lazy", "vdi", "vmdk")  # findings
    assert result.verdict.name == ("LOSSY" if broken else "SAFE"), result
