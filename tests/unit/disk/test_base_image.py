# SPDX-License-Identifier: Apache-2.0
"""Base images: formatted once, never modified, the same for the same request."""

import pytest

from powercut.disk.base import BaseImageSpec, ensure_base_image, mkfs_argv
from powercut.model.errors import HostError

MAGIC = {"xfs": (0, b"XFSB"), "ext4": (1080, b"\x53\xef"), "btrfs": (65600, b"_BHRfS_M")}
MAGIC["f2fs"] = (1024, b"\x10\x20\xf5\xf2")


@pytest.mark.parametrize(
    ("filesystem", "mib"), [("xfs", 320), ("xfs", 16), ("ext4", 32), ("btrfs", 256), ("f2fs", 64)]
)
def test_formats_what_was_asked_for(tmp_path, filesystem, mib):
    image = ensure_base_image(BaseImageSpec(filesystem, mib << 20), tmp_path)
    offset, magic = MAGIC[filesystem]
    assert image.read_bytes()[offset : offset + len(magic)] == magic
    assert image.stat().st_size == mib << 20
    assert image.stat().st_mode & 0o222 == 0
    assert image.stat().st_blocks * 512 < 8 << 20, "zeroes must be holes"


def test_a_raw_disk_is_all_hole(tmp_path):
    image = ensure_base_image(BaseImageSpec("", 8 << 20), tmp_path)
    assert image.stat().st_blocks == 0
    assert image.stat().st_size == 8 << 20


def test_the_second_request_is_served_from_the_cache(tmp_path):
    spec = BaseImageSpec("ext4", 16 << 20)
    first = ensure_base_image(spec, tmp_path)
    made = first.stat().st_mtime_ns
    assert ensure_base_image(spec, tmp_path) == first
    assert first.stat().st_mtime_ns == made
    assert [p.name for p in first.parent.iterdir()] == [first.name]


def test_options_reach_mkfs_and_make_another_image(tmp_path):
    plain = BaseImageSpec("ext4", 16 << 20)
    ordered = BaseImageSpec("ext4", 16 << 20, ("-O", "^has_journal"))
    assert mkfs_argv(ordered, tmp_path / "x")[-3:] == ["-O", "^has_journal", str(tmp_path / "x")]
    assert ensure_base_image(plain, tmp_path) != ensure_base_image(ordered, tmp_path)


def test_a_refusal_names_the_tool_and_leaves_nothing(tmp_path):
    with pytest.raises(HostError, match=r"mkfs\.xfs failed .* too small"):
        ensure_base_image(BaseImageSpec("xfs", 4 << 20), tmp_path)
    assert list((tmp_path / "base").iterdir()) == []


def test_trials_at_the_same_time_share_what_one_of_them_makes(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    spec = BaseImageSpec(filesystem="xfs", size=32 << 20)
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: ensure_base_image(spec, tmp_path), range(8)))
    assert set(made) == {made[0]}
    assert list((tmp_path / "base").iterdir()) == [made[0]]
