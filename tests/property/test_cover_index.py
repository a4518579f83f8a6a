# SPDX-License-Identifier: Apache-2.0
"""The index of writes by place and time, against looking at every write."""

from __future__ import annotations

import numpy as np
from handmade import Handmade
from hypothesis import given
from hypothesis import strategies as st

from powercut.crash.places import CoverIndex
from powercut.crash.sets import durability_sets

PAGES = 600
WRITE = st.tuples(
    st.integers(0, PAGES - 1),  # first page
    st.sampled_from([1, 2, 3, 4, 5, 8, 9, 64, 300, PAGES]),  # pages
    st.integers(0, 40),  # how long in flight
)


@given(
    st.lists(WRITE, min_size=1, max_size=60),
    st.sets(st.integers(0, PAGES - 1), min_size=1, max_size=20),
    st.data(),
)
def test_covers_what_a_look_at_every_write_finds(
    writes: list[tuple[int, int, int]], wanted: set[int], data: st.DataObject
) -> None:
    disk = Handmade(disk_size=PAGES * 4096)
    for at, (page, pages, takes) in enumerate(writes):
        length = min(pages, PAGES - page) * 4096
        disk.zero(page * 4096, length, at=at * 10 + 1, done=at * 10 + 2 + takes)
    timeline = disk.timeline()
    sets = durability_sets(timeline)
    since = data.draw(st.integers(0, len(writes) - 1))
    until = data.draw(st.integers(since, len(writes) + 1))
    units = np.array(sorted(wanted), dtype=np.int64)

    index = CoverIndex(timeline, sets)
    found = index.covers(units, since, until)

    expected = []
    for number, (page, pages, _) in enumerate(writes):
        inside = np.flatnonzero((units >= page) & (units < page + pages))
        if number < until and sets.successor[number] > since and len(inside):
            expected.append((number, int(inside[0]), int(inside[-1]) + 1))
    assert index.unit == 4096
    assert list(zip(*(column.tolist() for column in found), strict=True)) == expected
