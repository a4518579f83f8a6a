# SPDX-License-Identifier: Apache-2.0
"""Hosts that lack something: what works there, and what they are told about the rest."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

import memory_groups
import pytest
from poor_host import NO_FUSE, NOEXEC, READ_ONLY, PoorHost

from powercut.paths import NOT_WRITABLE, ROOT
from powercut.sandbox.confined import find_tool

pytestmark = pytest.mark.vm

SCENARIO = """powercut: 1
name: raw-cell
filesystem: {type: raw}
disk: {flush_latency: 10ms, fua_latency: 10ms}  # longer than a busy host takes to date an ack
workload: {layout: raw, record: 512}
cut: {trigger: {acks: 20}}
cells:
  - {name: honest, expect: safe}
  - {name: lying, disk.flush: ignored, disk.fua: ignored, expect: lossy}
"""

WITHOUT_FUSE = "no disk can be a file: machine.aio other than nbd, virtio-pmem, nvdimm"

SERVE = """
import os
from pathlib import Path
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.doctor.host import requirement
from powercut.machine.fuse import NbdFuse
base = Path.cwd() / "base"
base.write_bytes(bytes(1 << 20))
with CaptureDisk(CaptureConfig(base=base, log=None, sockets=Path.cwd())) as disk:
    file = NbdFuse(disk.socket, Path.cwd(), timeout_s=300)
    print(("ok" if requirement("fuse").ok else "without"), file.path.stat().st_size)
    handle = os.open(file.path, os.O_RDWR)
    os.pwrite(handle, b"x" * 4096, 0)
    os.fsync(handle)
    os.close(handle)
    print("written" if disk.statistics().writes == 1 else disk.statistics())
    file.close(timeout_s=300)
"""


def probes(host: PoorHost) -> dict[str, dict[str, str]]:
    """What the doctor finds, by name; it must say that scenarios run."""
    done = host.powercut("doctor", "--json", "-")
    assert done.returncode == 0, done.stderr
    return {probe["name"]: probe for probe in json.loads(done.stdout)["probes"]}


def raw_cells(host: PoorHost) -> None:
    """Runs an honest and a lying cell, with controls; both must come out."""
    scenario = host.work / "raw-cell.yaml"
    scenario.write_text(SCENARIO)
    done = host.powercut("run", scenario, "--seed", "1", "--json", "-")
    assert done.returncode == 0, done.stderr
    (run,) = json.loads(done.stdout)["runs"]
    assert [cell["verdict"] for cell in run["cells"]] == ["safe", "lossy"]
    assert (host.work / "results/raw-cell/latest/verdict.json").exists()


def fuse_probe(host: PoorHost) -> list[str]:
    """What is found, why not more, what to do."""
    code = (
        "from powercut.doctor.host import requirement\n"
        "probe = requirement('fuse')\n"
        "print(probe.found, probe.limit, probe.remedy, sep='\\n')"
    )
    done = host.run(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_host_without_fuse_says_what_that_costs(tmp_path):
    found, limit, remedy = fuse_probe(PoorHost(tmp_path, NO_FUSE))
    assert found == "nothing usable"
    assert limit == f"/dev/fuse is not there: {WITHOUT_FUSE}"
    assert "--device /dev/fuse" in remedy


def test_a_host_without_namespaces_says_what_that_costs(tmp_path):
    """A container without CAP_SYS_ADMIN; Ubuntu 24.04 refuses them to users by an AppArmor rule."""
    found, limit, remedy = fuse_probe(PoorHost(tmp_path, container=True))
    assert found == "/dev/fuse"
    assert limit.startswith("unshare fails")
    assert limit.endswith(f"Operation not permitted: {WITHOUT_FUSE}")
    assert remedy.startswith("allow user namespaces, or be root; in a container: ")


def test_a_chroot_into_a_folder_can_serve_disks_as_files(tmp_path):
    """Its root is no mount point, so that unshare cannot make it private."""
    root = tmp_path / "root"
    root.mkdir()
    mounts = f"""
for folder in /*/; do
    mkdir '{root}'"$folder" && mount --rbind "$folder" '{root}'"$folder"
done
"""
    folder = Path(tempfile.mkdtemp(prefix="pcfuse-"))
    host = PoorHost(tmp_path, mounts)
    try:
        done = host.run(find_tool("chroot"), root, "env", "-C", folder, sys.executable, "-c", SERVE)
    finally:
        shutil.rmtree(folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ok 1048576\nwritten\n"


@pytest.mark.memory_group
def test_everything_that_a_container_lacks_at_once(tmp_path):
    """Docker's profile, so no user namespaces and no io_uring; noexec; read-only; no fuse.

    And one processor with 4 GiB.
    """
    environment = {
        "HOME": str(ROOT),
        "TMPDIR": "/tmp",
        "POWERCUT_BUILD": str(tmp_path / "build"),
        "POWERCUT_CACHE": str(tmp_path / "cache"),
    }
    mounts = NOEXEC + NO_FUSE + READ_ONLY
    host = PoorHost(tmp_path, mounts, container=True, small=True, environment=environment)
    found = probes(host)
    assert found["memory"]["found"].endswith(" 1 processor")
    assert {name for name, probe in found.items() if not probe["ok"]} <= {
        *("kvm", "fuse", "captured folder", "loop", "libvirt")
    }
    assert found["sandbox"]["found"] == "tools that work on images run in Landlock"
    for probe in found.values():
        assert probe["ok"] or probe["remedy"], probe
    raw_cells(host)


def test_a_checkout_that_may_not_be_written_to_serves_another_user(tmp_path):
    """Two users share it: what was built is shared, images are made in each one's cache."""
    environment = {"HOME": str(tmp_path), "POWERCUT_BUILD": "", "XDG_CACHE_HOME": ""}
    host = PoorHost(tmp_path, READ_ONLY, environment=environment)
    code = (
        "from powercut import paths\n"
        "print(paths.PARTS, paths.BUILD, sep='\\n')\n"
        "open(paths.ROOT / 'results' / 'x', 'w')"
    )
    done = host.run(sys.executable, "-c", code)
    assert done.stdout.splitlines() == [str(ROOT / "build"), str(tmp_path / ".cache/powercut")]
    assert "Read-only file system" in done.stderr
    done = host.powercut("init", ROOT / "new")
    assert done.returncode == 3
    assert done.stderr == (
        f"powercut: {ROOT}/new: Read-only file system; nothing was proved\nhint: {NOT_WRITABLE}\n"
    )


@pytest.mark.parametrize(
    "mounts", [NO_FUSE, NOEXEC, READ_ONLY], ids=["no-fuse", "noexec", "read-only"]
)
def test_a_host_that_lacks_nothing_is_an_error(tmp_path, mounts):
    """Where its mounts have no effect, here because they are never made."""
    idle = "mount() { :; }\n" + mounts
    done = PoorHost(tmp_path, idle).run("true")
    assert done.returncode == 99
    assert "this plays no such host" in done.stderr


@pytest.mark.memory_group
def test_a_control_group_that_limits_nothing_is_an_error(tmp_path):
    """As a folder is where no control groups are mounted."""
    (tmp_path / "group").mkdir()
    with pytest.raises(AssertionError, match="limits nothing"):
        memory_groups.join(tmp_path / "group", 4 << 30)
