# SPDX-License-Identifier: Apache-2.0
"""However a log was cut into extents, its stretches are the same."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from powercut.model.observation import Extent, Observation
from powercut.wal.layout import SlotState

SLOT = st.tuples(st.sampled_from([SlotState.INTACT, SlotState.ABSENT]), st.integers(0, 3))


@given(st.lists(SLOT, max_size=30))
def test_the_same_log_has_the_same_stretches(slots: list[tuple[SlotState, int]]) -> None:
    singles = [
        Extent(number, 1, state, lsn=0 if not base else base * 100 + number)
        for number, (state, base) in enumerate(slots)
    ]
    merged = Observation(tuple(singles)).stretches

    assert Observation(merged).stretches == merged
    told = [
        (extent.slot + at, extent.state, extent.lsn + at if extent.lsn else 0)
        for extent in merged
        for at in range(extent.count)
    ]
    assert told == [(extent.slot, extent.state, extent.lsn) for extent in singles]
    for before, after in pairwise(merged):
        continues = after.lsn == (before.lsn + before.count if before.lsn else 0)
        assert before.state != after.state or not continues
