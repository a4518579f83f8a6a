# SPDX-License-Identifier: Apache-2.0
"""The map of an exploration counts each state once, wherever it was read."""

from __future__ import annotations

import numpy as np

from powercut.crash.states import CrashState
from powercut.explore.request import Budget
from powercut.explore.state_map import StateMapper
from powercut.model.verdict import Finding, FindingKind, Verdict
from powercut.store.exploration import COLUMNS, ROWS, MapField


def test_every_state_is_on_the_map_once(world):
    """Read many at a time, and one by one: the same states are at the same places."""
    made = world.disk()
    recorded = world.recorded(made, world.commits(made, 4, group=2, early=1))
    for budget in (Budget(states=10_000), Budget(states=60)):
        result = world.explore(recorded, budget=budget)
        coverage, drawn = result.coverage, result.map
        assert sum(one.states for one in drawn.fields) == coverage.distinct
        assert sum(one.lossy for one in drawn.fields) == coverage.lossy > 0
        assert all(0 <= one.column < COLUMNS and 0 <= one.row < ROWS for one in drawn.fields)
        assert max(one.row for one in drawn.fields) == ROWS - 1
        assert min(one.row for one in drawn.fields) == 0


def test_a_state_lies_where_it_was_cut_and_by_what_it_lacks(world):
    made = world.disk()
    recorded = world.recorded(made, world.commits(made, 4, group=4))
    space = recorded.space
    instants = sorted({int(one) + 1 for one in space.sets.submitted_ns.tolist()})
    mapper = StateMapper(space, instants[0], instants[-1])
    instant = next(one for one in instants if len(space.volatile(one)) >= 4)
    volatile = space.volatile(instant).tolist()
    lost = [Finding(FindingKind.LOST, Verdict.LOSSY, "gone")]
    mapper.add(CrashState(instant, tuple(volatile)), [])
    mapper.add(CrashState(instant, ()), lost)
    mapper.add(CrashState(instant, tuple(volatile[1:])), [])
    mapper.add(CrashState(instants[-1] + 10**9, ()), [])
    rows = {one.row: one for one in mapper.result().fields if one.column < COLUMNS - 1}
    share = -(-10 // len(volatile))
    assert set(rows) == {0, share, ROWS - 1}
    column = rows[0].column
    assert rows[ROWS - 1] == MapField(column=column, row=ROWS - 1, states=1, lossy=1)
    assert mapper.result().fields[-1].column == COLUMNS - 1


def test_what_survives_of_a_raw_log_is_counted_in_writes(world):
    """Two cells of one write are one write."""
    from powercut.recover.raw import Moment

    moment = object.__new__(Moment)
    moment.writes = np.array([5, 9])
    moment.piece_write = np.array([1, 0, 1])
    pieces = np.array([[0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 1, 1]], dtype=np.bool_)
    assert moment.missing(pieces).tolist() == [2, 1, 1, 0]
