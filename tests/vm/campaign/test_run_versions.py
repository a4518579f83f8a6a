# SPDX-License-Identifier: Apache-2.0
"""QEMU and a kernel of another suite, fetched, started, named, and as guilty as the old ones."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ordinary_user import NOBODY, as_ordinary_user

from powercut.paths import CACHE, ROOT
from powercut.store.layout import ResultDir

SUITE = "trixie"

RESTORED = f"""\
machine: {{qemu: {SUITE}, kernel: {SUITE}, bus: ide, cache: writethrough, start: restored}}
filesystem: {{type: raw}}
workload: {{record: 4096, align: 4096, direct: true}}
cut: {{trigger: {{acks: 20}}}}
controls: none
expect: lossy
deadline: 5min
"""


@pytest.mark.nightly
def test_a_restored_ide_disk_is_as_forgetful_in_a_newer_qemu(run) -> None:
    result = run(RESTORED)
    (cell,) = result.cells
    (trial,) = cell.trials
    record = ResultDir(Path(result.result_directory)).trials()[0].read_record()
    assert not record.trouble
    assert record.guest_facts["write_cache"] == "write through"
    assert trial.commits_acked >= 20
    assert trial.commits_lost == trial.commits_acked
    versions = record.versions
    assert versions["qemu_version"].startswith("10.0.")
    assert versions["qemu_package"].startswith("Debian 1:10.0.")
    assert versions["kernel_release"] == record.guest_facts["kernel"].split()[0]
    assert versions["kernel_release"].startswith("6.12.")
    assert versions["kernel_package"].startswith("linux-image-6.12.")
    binary = CACHE / "suites" / SUITE / "qemu/root/usr/bin/qemu-system-x86_64"
    assert versions["qemu_sha256"] == hashlib.sha256(binary.read_bytes()).hexdigest()
    environment = ResultDir(Path(result.result_directory)).read_environment()
    named = [entry["qemu_version"] for entry in environment["versions"]]
    assert named == [versions["qemu_version"]]


FETCH = f"""\
import sys, time
from pathlib import Path
from powercut_extras.suites.apt import SuiteApt
apt = SuiteApt({SUITE!r}, Path(sys.argv[1]) / "apt")
debs = apt.download_closure(["zlib1g"], deadline=time.monotonic() + 300)
assert apt.download_closure(["zlib1g"], deadline=time.monotonic() + 300) == debs
print(*sorted(deb.name.partition("_")[0] for deb in debs))
"""


@pytest.mark.public_checkout
def test_an_ordinary_user_fetches_packages_and_the_host_does_not_notice() -> None:
    home = Path(tempfile.mkdtemp(prefix="pc-"))  # pytest's own is closed to others
    try:
        if os.geteuid() == 0:
            os.chown(home, NOBODY, NOBODY)
        before = Path("/var/lib/dpkg/status").stat().st_mtime_ns
        lists = Path("/var/lib/apt/lists").stat().st_mtime_ns
        done = subprocess.run(
            [*as_ordinary_user(), sys.executable, "-c", FETCH, str(home)],
            cwd=home,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "harness")},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        # What it depends on comes along, down to libc: nothing counts as installed.
        assert {"zlib1g", "libc6"} <= set(done.stdout.split())
        assert Path("/var/lib/dpkg/status").stat().st_mtime_ns == before
        assert Path("/var/lib/apt/lists").stat().st_mtime_ns == lists
    finally:
        shutil.rmtree(home)
