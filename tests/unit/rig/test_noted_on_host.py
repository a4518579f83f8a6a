# SPDX-License-Identifier: Apache-2.0
"""Which files were read on this host, by whatever way."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import pytest

from powercut.rig import reads
from powercut.rig.reads import noting_reads


def by_read(path: Path) -> None:
    path.read_bytes()


def undated(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_NOATIME)
    assert os.read(file, 9) == b"here"
    os.close(file)


def by_mapping(path: Path) -> None:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        assert memory[:4] == b"here"


def looked_at(path: Path) -> None:
    os.close(os.open(path, os.O_RDONLY))
    assert path.stat().st_size == 4


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    (tmp_path / "folder" / "below").mkdir(parents=True)
    made = [tmp_path / "folder" / name for name in ("one", "two", "below/three")]
    for path in made:
        path.write_bytes(b"here")
    return made


@pytest.mark.parametrize("read", [by_read, undated, by_mapping])
def test_what_was_read_is_told_from_what_was_not(files: list[Path], read) -> None:
    with noting_reads(files[0].parent, files) as unread:
        for path in files:
            looked_at(path)
        assert unread() == tuple(files)
        read(files[2])
        read(files[2])
        assert unread() == tuple(files[:2])
        files[0].unlink()
        assert unread() == (files[1],)


def test_where_nothing_is_dated_nothing_is_known(files: list[Path], monkeypatch) -> None:
    monkeypatch.setattr(reads, "_keeps_dates", lambda _: False)
    with noting_reads(files[0].parent, files) as unread:
        assert unread() is None
    with noting_reads(files[0].parent, []) as unread:
        assert unread() == ()
