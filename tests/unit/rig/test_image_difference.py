# SPDX-License-Identifier: Apache-2.0
"""In what two disk images differ, whatever of them is a hole."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from sparse_file import sparse

from powercut.model.errors import HostError
from powercut.recover.port import ImageWrite
from powercut.rig.image_open import changed_parts, write_image
from powercut.store.files import copy_sparse

MIB = 1 << 20
PAGE = 4096


def image(path: Path, written: dict[int, bytes], size: int = 64 * MIB) -> Path:
    return sparse(path, written, size)


@pytest.mark.parametrize("far", [0, 5 * MIB - 1, 63 * MIB])
def test_pages_that_one_of_them_alone_has_are_found_in_both_directions(tmp_path, far):
    one = image(tmp_path / "one", {PAGE: b"same"})
    other = image(tmp_path / "other", {PAGE: b"same", far: b"new"})
    pages = sorted({far // PAGE, (far + 2) // PAGE})
    for base, changed in ((one, other), (other, one)):
        made = changed_parts(base, changed)
        assert [write.offset // PAGE for write in made] == pages
        whole = changed.read_bytes()
        assert all(w.data.tobytes() == whole[w.offset : w.offset + w.length] for w in made)


def test_zeroes_that_were_written_are_a_hole(tmp_path):
    one = image(tmp_path / "one", {})
    other = image(tmp_path / "other", {3 * MIB: bytes(2 * PAGE)})
    assert changed_parts(one, other) == changed_parts(other, one) == []


def test_images_of_two_sizes_are_not_compared(tmp_path):
    one, other = image(tmp_path / "one", {}), image(tmp_path / "other", {}, MIB)
    with pytest.raises(HostError, match="has 1,048,576 bytes"):
        changed_parts(one, other)


def test_a_copy_is_whole_where_a_disk_that_gets_full_takes_a_part_of_a_write(tmp_path, monkeypatch):
    base = image(tmp_path / "base", {0: b"begin" * PAGE, 5 * MIB: b"middle" * PAGE}, 6 * MIB)
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:PAGE], at))
    copy_sparse(base, tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == base.read_bytes()
    new = np.full(3 * PAGE, 7, dtype=np.uint8)
    write_image(base, [ImageWrite(MIB, len(new), new)], tmp_path / "state")
    wanted = bytearray(base.read_bytes())
    wanted[MIB : MIB + len(new)] = new.tobytes()
    assert (tmp_path / "state").read_bytes() == wanted
