# SPDX-License-Identifier: Apache-2.0
"""mkfs runs on the host: a scenario may say how the image lies, and name nothing else."""

from pathlib import Path

import pytest

from powercut.disk.base import BaseImageSpec, ensure_base_image
from powercut.model.errors import UsageError
from powercut.scenario.load import parse_scenario
from powercut.scenario.mkfs_options import refused_mkfs_options

REFUSED = {
    "xfs": [
        ["-l", "logdev=/dev/sdb"],
        ["-l", "size=10m,logdev=/dev/sdb"],
        ["-llogdev=/dev/sdb"],
        ["-l", "internal=0,size=8m"],
        ["-l", "name=/etc/passwd"],
        ["-r", "rtdev=/dev/sdb"],
        ["-d", "name=/dev/sdb"],
        ["-d", "file=1,name=victim"],
        ["-p", "/tmp/proto"],
        ["-c", "options=/etc/shadow"],
        ["-m", "uuid=5ca1ab1e-0000-4000-8000-706f77657264"],
        ["/dev/sdb"],
        ["-K", "/dev/sdb"],
        ["--", "/dev/sdb"],
        ["-Kp", "/tmp/proto"],
        ["-b", "size=/dev/sdb"],
        ["-L"],
        ["-"],
        [""],
    ],
    "ext4": [
        ["-J", "device=/dev/sdb"],
        ["-J", "size=4,device=UUID=0"],
        ["-O", "journal_dev"],
        ["-O", "extent,journal_dev"],
        ["-d", "/etc"],
        ["-d/etc"],
        ["-E", "root_owner=1000:1000"],
        ["-E", "offset=4096"],
        ["-E", "lazy_itable_init=0,mmp_update_interval=/etc"],
        ["-l", "/etc/passwd"],
        ["-z", "/etc/undo"],
        ["-t", "ext2"],
        ["-U", "clear"],
        ["-T", "/etc/shadow"],
        ["-Fd", "/etc"],
        ["-c"],
        ["/dev/sdb", "1000"],
    ],
    "btrfs": [
        ["-r", "/etc"],
        ["--rootdir", "/etc"],
        ["--rootdir=/etc"],
        ["--rootd=/etc"],
        ["-d", "raid1"],
        ["--metadata=raid1"],
        ["/dev/sdb"],
        ["-f", "/dev/sdb"],
        ["--device-uuid", "5ca1ab1e-0000-4000-8000-706f77657264"],
    ],
    "f2fs": [["-c", "/dev/sdb"], ["-c/dev/sdb"], ["-S"], ["-R", "0:0"], ["/dev/sdb"], ["-t", "1"]],
}
ALLOWED = {
    "xfs": [
        ["-b", "size=1024"],
        ["-bsize=1k"],
        ["-m", "crc=1,reflink=0", "-l", "size=16m,version=2,sunit=64"],
        ["-d", "agcount=1,su=64k,sw=2", "-n", "version=ci", "-s", "size=4096"],
        ["-L", "a label", "-K", "--unsupported"],
        ["-l", "internal"],
    ],
    "ext4": [
        ["-b", "4096"],
        ["-b4096", "-I", "256", "-m", "0"],
        ["-O", "^has_journal"],
        ["-O", "fast_commit,^metadata_csum"],
        ["-J", "size=4", "-E", "stride=8,stripe-width=16,nodiscard"],
        ["-T", "largefile4,small"],
        ["-E", "hash_seed=5ca1ab1e-0000-4000-8000-706f77657264"],
    ],
    "btrfs": [
        ["-d", "single", "--metadata=dup", "-n", "16k", "--csum", "xxhash"],
        ["-M", "-O", "no-holes,^free-space-tree", "-L", "x"],
    ],
    "f2fs": [["-O", "extra_attr,inode_checksum", "-s", "2", "-o", "10"], ["-i", "-l", "x"]],
}


@pytest.mark.parametrize(
    ("filesystem", "words"), [(name, words) for name, all_ in REFUSED.items() for words in all_]
)
def test_nothing_that_names_another_device_or_file_gets_to_mkfs(filesystem, words):
    assert refused_mkfs_options(filesystem, words)


@pytest.mark.parametrize(
    ("filesystem", "words"), [(name, words) for name, all_ in ALLOWED.items() for words in all_]
)
def test_how_the_file_system_lies_may_be_said(filesystem, words):
    assert refused_mkfs_options(filesystem, words) == ()


def test_every_mistake_is_reported():
    found = refused_mkfs_options("ext4", ["-d", "/etc", "-b", "4096", "-J", "device=/dev/sdb"])
    assert len(found) == 2
    assert "copies files of the host" in found[0]
    assert "-J device: names another device" in found[1]


def test_a_scenario_is_refused_with_its_place():
    text = (
        "powercut: 1\nname: evil\nfilesystem:\n  type: xfs\n  mkfs: [-l, logdev=/dev/sdb]\n"
        "workload: {layout: append}\n"
    )
    with pytest.raises(UsageError) as caught:
        parse_scenario(text, Path("evil.yaml"))
    assert "evil.yaml:5:3: filesystem.mkfs: -l logdev: names another device" in str(caught.value)


def test_settings_that_no_scenario_went_through_are_refused_too(tmp_path):
    spec = BaseImageSpec("xfs", 32 << 20, ("-l", f"logdev={tmp_path}/victim,size=16m"))
    (tmp_path / "victim").write_bytes(bytes(32 << 20))
    with pytest.raises(UsageError, match="logdev"):
        ensure_base_image(spec, tmp_path / "cache")
    assert (tmp_path / "victim").read_bytes() == bytes(32 << 20)
