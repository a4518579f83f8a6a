# SPDX-License-Identifier: Apache-2.0
"""The policies of powercut.crash.policies for raw logs: many states of one instant at a time.

States are drawn as matrices of what survives, a row each (see powercut.recover.raw).  A policy
ends where the one of its name ends, but `torn` also tears all volatile writes at once, at random,
without end.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.states import StateSpace
from powercut.model.units import NEVER
from powercut.recover.raw import Moment

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

PIECES_MAX: Final = 1 << 22
"""Elements of one matrix of pieces at most."""


class RawPolicies:
    """Draws states of one recording, in rounds that go further and further.

    `open` counts the draws of this round whose policy has not come to its end.
    """

    def __init__(self, space: StateSpace, seed: int) -> None:
        self._space = space
        self._seed = seed
        self.open = 0
        self._left_out = False  # states whose matrix would not have fitted into memory

    @property
    def some_left(self) -> bool:
        """Whether a policy has states that were not drawn, of those that it would draw."""
        return bool(self.open) or self._left_out

    def begin_round(self) -> None:
        """The next draws are those of a new round."""
        self.open = 0

    def draw(self, name: str, moment: Moment, done: int, share: int) -> Mask:
        """Rows number `done` to `share` that policy `name` draws."""
        if not len(moment.writes) and name != "durable-only":
            return no_states(moment)
        end = self._ends_at(name, moment)
        until = share if end is None else min(share, end)
        if end is None or end > share:
            self.open += 1
        # However large the matrix, it has to fit into memory.
        room = done + max(16, 16 * PIECES_MAX // max(1, len(moment.piece_cell)))
        if until > room:  # the rest is not drawn later
            self._left_out = True
            until = room
        if until <= done:
            return no_states(moment)
        rng = np.random.default_rng([self._seed, _stable(name), moment.instant, done])
        return self._rows(name, moment, np.arange(done, until), rng)

    def _ends_at(self, name: str, moment: Moment) -> int | None:
        """How many states policy `name` has; None if it has no end."""
        count = len(moment.writes)
        match name:
            case "durable-only" | "everything-issued":
                return 1
            case "all-but-one" | "only-one":
                return count
            case "prefixes":
                completed = self._space.completed_ns[moment.writes]
                return int((completed != NEVER).sum()) + 1
        # Blind draws: no sense in many more than there are states.
        groups = moment.groups if name == "torn" else count
        return None if groups > 20 else 4 << groups

    def _rows(self, name: str, moment: Moment, numbers: I64, rng: np.random.Generator) -> Mask:
        shape = (len(numbers), len(moment.writes))
        match name:
            case "durable-only":
                writes: Mask = np.zeros(shape, dtype=np.bool_)
            case "everything-issued":
                writes = np.ones(shape, dtype=np.bool_)
            case "all-but-one" | "only-one":
                order = np.random.default_rng([self._seed, moment.instant])
                picked = order.permutation(shape[1])[numbers]
                one = np.arange(shape[1])[None, :] == picked[:, None]
                writes = ~one if name == "all-but-one" else one
            case "prefixes":
                completed = self._space.completed_ns[moment.writes]
                rank = np.argsort(np.argsort(completed, kind="stable"), kind="stable")
                writes = (rank[None, :] < numbers[:, None]) & (completed != NEVER)[None, :]
            case "random-subsets":
                writes = rng.random(shape) < rng.random((shape[0], 1))
            case _:
                return self._torn(moment, numbers, rng)
        return np.asarray(writes[:, moment.piece_write], dtype=np.bool_)

    def _torn(self, moment: Moment, numbers: I64, rng: np.random.Generator) -> Mask:
        """Random units; of every other state only one write, with or without the others."""
        rows = len(numbers)
        units = rng.random((rows, moment.groups)) < rng.random((rows, 1))
        pieces = units[:, moment.piece_group]
        one = rng.integers(len(moment.writes), size=rows)
        others = moment.piece_write[None, :] != one[:, None]
        company = rng.random((rows, 1)) < 0.5
        single = np.where(others, company, pieces)
        return np.where((numbers % 2 == 0)[:, None], single, pieces)


def no_states(moment: Moment) -> Mask:
    """A matrix without rows."""
    return np.empty((0, len(moment.piece_cell)), dtype=np.bool_)


def _stable(name: str) -> int:
    """A number for a name that is the same in every process."""
    return int.from_bytes(name.encode()[:8], "little")
