# SPDX-License-Identifier: Apache-2.0
"""The digest of evidence, against its definition."""

import hashlib
import os
import random

import pytest

from powercut.store import digest
from powercut.store.digest import ContentDigest, file_digest


def by_definition(content: bytes) -> str:
    if len(content) <= digest.WHOLE_MAX:
        return hashlib.sha256(content).hexdigest()
    parts = [content[at : at + digest.PART] for at in range(0, len(content), digest.PART)]
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


@pytest.fixture(params=["small parts", "as it is"])
def parts(request, monkeypatch):
    if request.param == "small parts":  # or every example would be 64 MiB
        monkeypatch.setattr(digest, "PART", 8192)
        monkeypatch.setattr(digest, "WHOLE_MAX", 65536)


@pytest.mark.parametrize("seed", range(20))
def test_it_is_of_the_content_however_sparse_the_file_is(tmp_path, parts, seed):
    draw = random.Random(seed)
    size = draw.choice([0, 1, 65536, 65537, 200_000, 300_001])
    content = bytearray(size)
    sparse, dense = tmp_path / "sparse", tmp_path / "dense"
    with sparse.open("wb") as file:
        file.truncate(size)
        for _ in range(draw.randrange(4) if size else 0):
            at = draw.randrange(size)
            data = draw.choice([bytes, draw.randbytes])(draw.randrange(min(30_000, size - at) + 1))
            content[at : at + len(data)] = data
            os.pwrite(file.fileno(), data, at)
    dense.write_bytes(content)
    assert file_digest(sparse) == file_digest(dense) == by_definition(bytes(content))
    piecemeal, at = ContentDigest(size), 0
    while at < size:
        step = draw.randrange(1, 20_000)
        piecemeal.update(bytes(content[at : at + step]))
        at += step
    assert piecemeal.hexdigest() == by_definition(bytes(content))


def test_a_large_file_is_told_by_every_byte(tmp_path):
    path = tmp_path / "image"
    with path.open("wb") as file:
        file.truncate(digest.WHOLE_MAX + 5)
    seen = {file_digest(path)}
    assert seen == {by_definition(bytes(digest.WHOLE_MAX + 5))}
    for at in (0, digest.PART, digest.WHOLE_MAX + 4):
        with path.open("r+b") as file:
            os.pwrite(file.fileno(), b"x", at)
        seen.add(file_digest(path))
    os.truncate(path, digest.WHOLE_MAX + 4)
    seen.add(file_digest(path))
    assert len(seen) == 5


def test_a_hole_of_a_terabyte_is_not_read(tmp_path):
    path = tmp_path / "image"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    before = os.times().user
    file_digest(path)
    assert os.times().user - before < 2
