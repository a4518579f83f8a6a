# SPDX-License-Identifier: Apache-2.0
"""What docs/kernel-developers.md says to type runs the kernel that was built.

What `make` would leave is put there from a Debian suite's kernel, another one than the guest's own.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from powercut.paths import ROOT
from powercut_extras.suites.unpacked import suite_kernel

FETCH_S = 900
TIMEOUT_S = 600
BUILT_IN = ("virtio_pci", "virtio_console", "ext4")  # of what the guest needs, in Debian's


def told() -> list[str]:
    """The page's first line that starts powercut."""
    page = (ROOT / "docs/kernel-developers.md").read_text()
    line = next(line for line in page.splitlines() if line.startswith("powercut run "))
    return [sys.executable, "-m", "powercut.cli.main", *shlex.split(line)[1:]]


def build_tree(folder: Path) -> str:
    """Lays out what `make` leaves; returns the kernel's release."""
    kernel = suite_kernel("trixie", "cloud", deadline=time.monotonic() + FETCH_S)
    image = folder / "arch/x86/boot/bzImage"
    image.parent.mkdir(parents=True)
    shutil.copy(kernel.image, image)
    modules = folder / "installed/lib/modules" / kernel.release
    shutil.copytree(kernel.folder / "modules", modules / "kernel")
    names = [f"kernel/{path.name}" for path in sorted((modules / "kernel").iterdir())]
    (modules / "modules.order").write_text("\n".join(names) + "\n")
    (modules / "modules.builtin").write_text("".join(f"kernel/{name}.ko\n" for name in BUILT_IN))
    (modules / "build").symlink_to(folder)
    return kernel.release


@pytest.mark.nightly
def test_a_kernel_as_make_leaves_it_is_the_one_that_is_tested(tmp_path: Path) -> None:
    release = build_tree(tmp_path)
    done = subprocess.run(
        [*told(), "--only", "no-sync*", "--results", "results", "--json", "found.json"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT / "harness")},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = json.loads((tmp_path / "found.json").read_text())["runs"]
    (record,) = (tmp_path / run["result_directory"]).glob("cells/*/0001/trial.json")
    assert json.loads(record.read_text())["guest_facts"]["kernel"].split()[0] == release
    assert release.startswith("6.12.")
