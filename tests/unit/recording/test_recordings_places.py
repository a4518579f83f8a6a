# SPDX-License-Identifier: Apache-2.0
"""What lies where, against the file systems' own tools."""

from __future__ import annotations

import itertools
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from powercut.disk.base import BaseImageSpec, ensure_base_image
from powercut.recording.disk_places import UNKNOWN, Part, filesystem_of, places_of

MIB = 1 << 20


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    folder = tmp_path_factory.mktemp("places")

    def make(filesystem: str, size: int, *options: str) -> Path:
        for tool in (f"mkfs.{filesystem}", "debugfs", "xfs_db"):
            if shutil.which(tool, path="/sbin:/usr/sbin:/bin:/usr/bin") is None:
                pytest.skip(f"{tool} is not installed")
        return ensure_base_image(BaseImageSpec(filesystem, size, options), folder)

    return make


def output(*argv: object) -> str:
    done = subprocess.run([str(word) for word in argv], capture_output=True, text=True, check=True)
    return done.stdout


def names(path: Path, begin: int, end: int) -> list[str]:
    with path.open("rb") as file:
        file.seek(begin)
        payload = file.read(end - begin)
    return [part.what for part in places_of(path).parts(begin, payload)]


@pytest.mark.parametrize("size", [16, 64, 300])
def test_the_journal_of_xfs_is_where_xfs_db_says(image, size: int) -> None:
    path = image("xfs", size * MIB)
    assert filesystem_of(path) == "xfs"
    text = output("/usr/sbin/xfs_db", "-r", "-c", "sb 0", "-c", "p", path)
    sb = {key: int(value) for key, value in re.findall(r"^(\w+) = (\d+)$", text, re.MULTILINE)}
    fsb = f"convert fsblock {sb['logstart']} byte"
    (start,) = re.findall(r"\((\d+)\)", output("/usr/sbin/xfs_db", "-r", "-c", fsb, path))
    begin, end = int(start), int(start) + sb["logblocks"] * sb["blocksize"]
    assert places_of(path)._regions == [Part(begin, end, "journal")]
    assert names(path, begin - 512, begin + 512)[-1].startswith("journal")
    assert not names(path, end, end + 512)[0].startswith("journal")


def test_xfs_by_magic_number(image) -> None:
    path = image("xfs", 64 * MIB)
    assert names(path, 0, 2048) == [
        "superblock",
        "free space of an allocation group (AGF)",
        "inodes of an allocation group (AGI)",
        "free list of an allocation group (AGFL)",
    ]
    root = output("/usr/sbin/xfs_db", "-r", "-c", "sb 0", "-c", "p rootino", path).split()[-1]
    text = output("/usr/sbin/xfs_db", "-r", "-c", f"convert inode {root} daddr", path)
    sector = int(re.findall(r"\((\d+)\)", text)[0])
    assert names(path, sector * 512, sector * 512 + 512) == ["inodes"]
    (part,) = places_of(path).parts(40 * MIB, b"x" * 4096)
    assert part == Part(40 * MIB, 40 * MIB + 4096, UNKNOWN)


def test_an_xfs_log_record_names_its_cycle_and_block(image) -> None:
    path = image("xfs", 64 * MIB)
    begin = places_of(path)._regions[0].begin
    head = struct.pack(">IIIIII", 0xFEEDBABE, 3, 2, 512, 3, 17).ljust(512, b"\0")
    (part,) = places_of(path).parts(begin, head + b"\1" * 1024)
    assert part == Part(begin, begin + 1536, "journal (record 3:17)")


@pytest.mark.parametrize("options", [(), ("-b", "1024"), ("-O", "^64bit,^flex_bg")])
def test_ext4_is_where_debugfs_says(image, options: tuple[str, ...]) -> None:
    path = image("ext4", 64 * MIB, *options)
    assert filesystem_of(path) == "ext4"
    text = output("/usr/sbin/dumpe2fs", path)
    (block,) = map(int, re.findall(r"^Block size:\s+(\d+)$", text, re.MULTILINE))
    found = re.findall(r"(Block bitmap|Inode bitmap|Inode table) at (\d+)(?:-(\d+))?", text)
    assert len(found) >= 3
    for what, first, last in found:
        begin, end = int(first) * block, (int(last or first) + 1) * block
        expected = {"Block bitmap": "block bitmap of", "Inode bitmap": "inode bitmap of"}
        wanted = expected.get(what, "inodes")
        for at in (begin, end - 512):
            (name,) = names(path, at, at + 512)
            assert name.startswith(wanted), (what, at)
    extents = output("/usr/sbin/debugfs", "-R", "stat <8>", path)
    runs = re.findall(r"\((\d+)-(\d+)\):(\d+)-(\d+)", extents.partition("EXTENTS:")[2])
    assert runs
    journal = [part for part in places_of(path)._regions if part.what == "journal"]
    assert journal == [Part(int(a) * block, (int(b) + 1) * block, "journal") for _, _, a, b in runs]
    (name,) = names(path, journal[0].begin, journal[0].begin + 512)
    assert re.fullmatch(r"journal \(superblock of transaction \d+\)", name)
    assert names(path, 1024, 2048) == ["superblock"]


def test_an_ext4_commit_block_names_its_transaction(image) -> None:
    path = image("ext4", 64 * MIB)
    begin = next(p.begin for p in places_of(path)._regions if p.what == "journal")
    commit = struct.pack(">III", 0xC03B3998, 2, 41).ljust(4096, b"\0")
    (part,) = places_of(path).parts(begin + 8192, commit)
    assert part.what == "journal (commit of transaction 41)"


def test_btrfs_trees_are_named_by_their_owner(image) -> None:
    path = image("btrfs", 128 * MIB)
    assert filesystem_of(path) == "btrfs"
    with path.open("rb") as file:
        file.seek(64 << 10)
        head = file.read(4096)
    fsid = head[32:48]
    assert names(path, 64 << 10, (64 << 10) + 4096) == ["superblock"]
    block = bytearray(16384)
    block[32:48] = fsid
    struct.pack_into("<Q", block, 88, 2**64 - 6)
    block[100] = 1
    (part,) = places_of(path).parts(30 * MIB, bytes(block))
    assert part.what == "log tree (fsync), level 1"


def test_f2fs_has_its_areas_in_their_order(image) -> None:
    path = image("f2fs", 64 * MIB)
    assert filesystem_of(path) == "f2fs"
    areas = places_of(path)._regions
    assert [part.what.split()[0] for part in areas] == [
        *("superblock", "checkpoint", "segment", "node", "summaries")
    ]
    assert all(part.end == following.begin for part, following in itertools.pairwise(areas[1:]))
    assert names(path, 0, 8192) == ["superblock"]
    assert names(path, areas[-1].end, areas[-1].end + 512) == [UNKNOWN]
    with path.open("rb") as file:  # a checkpoint begins with its version, which mkfs chose
        file.seek(areas[1].begin)
        assert any(file.read(8))


def test_no_file_system(tmp_path: Path) -> None:
    path = tmp_path / "raw"
    path.write_bytes(bytes(4096))
    assert filesystem_of(path) == ""
    (part,) = places_of(path).parts(0, b"x" * 4096)
    assert part.what == UNKNOWN


def test_a_superblock_that_makes_no_sense_names_nothing(image, tmp_path: Path) -> None:
    for filesystem in ("xfs", "ext4"):
        raw = bytearray(image(filesystem, 64 * MIB).read_bytes()[: 8 * MIB])
        raw[24:80] = bytes(56) if filesystem == "xfs" else raw[24:80]
        raw[1024 + 24 : 1024 + 56] = b"\xff" * 32
        path = tmp_path / filesystem
        path.write_bytes(raw)
        places_of(path).parts(0, b"y" * 512)
