# SPDX-License-Identifier: Apache-2.0
"""Folding loses nothing, whatever the bytes are, and takes out all that can be written again."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from powercut.wal.folding import Folds, fold, keys_of, unfold
from powercut.wal.record import CHUNK, payload_words, record_bytes

RUN_ID = hashlib.sha256(b"a run").digest()[:16]


def words(key_number: int, stream: int, lsn: int, count: int) -> bytes:
    """Payload, as this run or the one of its records of generation 0 writes it."""
    return payload_words(keys_of(RUN_ID)[key_number], stream, lsn, count).astype("<u8").tobytes()


payload = st.builds(
    words,
    st.integers(0, 1),
    st.integers(0, 127),
    st.integers(1, (1 << 40) - 1),
    st.integers(1, 40),
)
pieces = st.lists(
    st.one_of(
        st.binary(max_size=200),
        st.integers(0, 300).map(bytes),
        payload,
        payload.map(lambda data: data[:-1] + bytes([data[-1] ^ 1])),
        payload.map(lambda data: data[8:]),
    ),
    max_size=12,
)


@given(pieces, st.booleans())
def test_what_is_folded_comes_back(parts: list[bytes], aligned: bool) -> None:
    if aligned:
        parts = [part + bytes(-len(part) % CHUNK) for part in parts]
    data = np.frombuffer(b"".join(parts), dtype=np.uint8)
    before = data.copy()
    folded, folds = fold(data, RUN_ID)
    assert np.array_equal(data, before), "what is folded is a copy"
    unfold(folded, folds, RUN_ID)
    assert np.array_equal(folded, data)


@pytest.mark.parametrize("lsns", [range(1, 40), (7, 7, 3)])
def test_a_record_leaves_its_header_and_one_row(lsns) -> None:
    records = b"".join(
        record_bytes(RUN_ID, 3, lsn, prev_lsn=0, generation=1, position=0, record_size=4096)
        for lsn in lsns
    )
    data = np.frombuffer(records, dtype=np.uint8)
    folded, folds = fold(data, RUN_ID)
    assert len(folds) == len(tuple(lsns))
    assert folds.count.tolist() == [63] * len(folds)
    rows = folded.reshape(len(folds), 4096)
    assert not rows[:, CHUNK:].any()
    assert rows[:, :CHUNK].any(axis=1).all()


def test_another_runs_payload_is_left_alone() -> None:
    data = np.frombuffer(words(0, 1, 5, 64), dtype=np.uint8)
    folded, folds = fold(data, bytes(16))
    assert not len(folds)
    assert np.array_equal(folded, data)


@pytest.mark.parametrize(
    ("start", "count", "key"),
    [(3, 1, 0), (0, 3, 0), (1 << 63, 1, 0), (1, (1 << 64) - 1, 0), (0, 1, 2)],
)
def test_folds_of_another_file_are_refused(start: int, count: int, key: int) -> None:
    column = [np.array([value], dtype=np.uint64) for value in (start, count, key, 0)]
    with pytest.raises(ValueError, match="outside of the file"):
        unfold(np.zeros(2 * CHUNK, dtype=np.uint8), Folds(*column), RUN_ID)
