# SPDX-License-Identifier: Apache-2.0
"""The archive is what cpio(1) and, by the same format, the kernel understand."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from powercut.machine.guest.initramfs import build_initramfs, character_device, directory, regular

ENTRIES = (
    directory("dev"),
    character_device("dev/console", 5, 1),
    directory("bin"),
    regular("bin/odd", b"12345", executable=True),
    regular("empty", b""),
)


def test_cpio_reads_it(tmp_path: Path) -> None:
    if shutil.which("cpio") is None:
        pytest.skip("no cpio: apt-get install cpio")
    archive = build_initramfs(ENTRIES)
    listed = subprocess.run(
        ["cpio", "-itv", "--quiet"], input=archive, capture_output=True, check=True
    ).stdout.decode()
    lines = listed.splitlines()
    assert [line.split()[-1] for line in lines] == ["dev", "dev/console", "bin", "bin/odd", "empty"]
    assert lines[1].startswith("crw-------")
    assert "5,   1" in lines[1]
    subprocess.run(
        ["cpio", "-id", "--quiet", "bin/odd", "empty"], input=archive, check=True, cwd=tmp_path
    )
    assert (tmp_path / "bin/odd").read_bytes() == b"12345"
    assert stat.S_IMODE((tmp_path / "bin/odd").stat().st_mode) == 0o755
    assert (tmp_path / "empty").read_bytes() == b""


def test_same_files_same_bytes() -> None:
    assert build_initramfs(ENTRIES) == build_initramfs(ENTRIES)
    assert len(build_initramfs(ENTRIES)) % 4 == 0


def test_file_before_its_directory_is_refused() -> None:
    with pytest.raises(ValueError, match="bin/odd: its directory is not in the archive"):
        build_initramfs(reversed(ENTRIES))
