# SPDX-License-Identifier: Apache-2.0
"""The origin of the uml engine, against the definition: base, then every write in order."""

import random

import numpy as np
import pytest

from powercut.model.errors import HostError
from powercut.recover.port import ImageWrite
from powercut.recover.uml.origin import PAGE, Origin

PAGES = 24


@pytest.fixture
def base(tmp_path):
    path = tmp_path / "base"
    content = np.random.default_rng(7).integers(0, 256, PAGES * PAGE, dtype=np.uint8)
    content[5 * PAGE : 9 * PAGE] = 0
    path.write_bytes(content.tobytes())
    return path


def plain(base, writes) -> bytes:
    image = bytearray(base.read_bytes())
    for write in writes:
        data = bytes(write.length) if write.data is None else write.data.tobytes()
        image[write.offset : write.offset + write.length] = data
    return bytes(image)


def random_write(rng: random.Random) -> ImageWrite:
    sectors = PAGES * PAGE // 512
    length = rng.choice([1, 1, 2, 8, 8, 8, 9, 40])
    offset = rng.randrange(sectors - length)
    data = None
    if rng.random() < 0.8:
        data = np.frombuffer(rng.randbytes(length * 512), dtype=np.uint8)
    return ImageWrite(offset * 512, length * 512, data)


@pytest.mark.parametrize("seed", range(20))
def test_each_state_is_exactly_base_and_writes_and_the_changed_pages_are_enough(base, seed):
    rng = random.Random(seed)
    pool = [random_write(rng) for _ in range(30)]
    origin = Origin(base)
    guest = np.frombuffer(base.read_bytes(), dtype=np.uint8).reshape(-1, PAGE).copy()
    for _ in range(40):
        writes = [write for write in pool if rng.random() < 0.7]
        if rng.random() < 0.3:
            rng.shuffle(writes)
        changed = origin.advance(writes)
        before = guest.copy()
        guest[changed] = origin.content(changed)
        assert guest.tobytes() == plain(base, writes)
        assert (guest != before).any(axis=1).sum() == len(changed), "a page was sent in vain"


@pytest.mark.parametrize("seed", range(10))
def test_each_who_watches_misses_no_page_however_seldom_it_asks(base, seed):
    rng = random.Random(seed)
    pool = [random_write(rng) for _ in range(30)]
    origin = Origin(base)
    start = np.frombuffer(base.read_bytes(), dtype=np.uint8).reshape(-1, PAGE)
    watching = [(origin.watch(), start.copy())]
    for turn in range(60):
        writes = [write for write in pool if rng.random() < 0.7]
        origin.advance(writes)
        if turn % 20 == 10:  # whoever comes late begins with the base image, too
            watching.append((origin.watch(), start.copy()))
        for changes, copy in watching:
            if rng.random() < 0.3:
                pages = changes.take()
                copy[pages] = origin.content(pages)
                assert copy.tobytes() == plain(base, writes)
                assert not len(changes.take())


def test_an_empty_guest_gets_all_that_is_not_zero(base):
    origin = Origin(base)
    writes = [ImageWrite(6 * PAGE + 512, 512, np.ones(512, dtype=np.uint8))]
    origin.advance(writes)
    filled = origin.filled()
    guest = np.zeros((PAGES, PAGE), dtype=np.uint8)
    guest[filled] = origin.content(filled)
    assert guest.tobytes() == plain(base, writes)
    assert filled.tolist() == [0, 1, 2, 3, 4, 6, *range(9, PAGES)]


def test_a_sparse_image_is_not_read_where_it_has_holes(tmp_path):
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.truncate(64 << 20)
        file.seek(40 << 20)
        file.write(b"x")
    assert Origin(path).filled().tolist() == [(40 << 20) // PAGE]


@pytest.mark.parametrize(("offset", "length"), [(-512, 512), (PAGES * PAGE, 512), (0, 0)])
def test_a_write_off_the_disk_is_refused_and_changes_nothing(base, offset, length):
    origin = Origin(base)
    with pytest.raises(ValueError, match="outside"):
        origin.advance([ImageWrite(offset, length, None)])
    assert len(origin.advance([])) == 0


def test_an_odd_image_is_refused_with_a_hint(tmp_path):
    path = tmp_path / "odd"
    path.write_bytes(bytes(PAGE + 512))
    with pytest.raises(HostError, match="whole number of pages") as caught:
        Origin(path)
    assert "4096" in caught.value.hint
