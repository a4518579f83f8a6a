# SPDX-License-Identifier: Apache-2.0
"""Planted in the index that says which write shows where in a crash state."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.suites import STATES

states = planter("states", STATES)

MUTANTS: tuple[Mutant, ...] = (
    *states(
        "harness/powercut/crash/layers.py",
        (
            "durable-too-early",
            "        return int(self._durable_ns.searchsorted(instant))",
            '        return int(self._durable_ns.searchsorted(instant, side="right"))',
            "a write is durable at the instant at which it becomes so",
        ),
        (
            "last-durable-shows",
            "        return _Level(shift, key[order], write, np.maximum.accumulate(node * self._stride + write))",
            "        return _Level(shift, key[order], write, node * self._stride + write)",
            "of two durable writes the one that became durable last shows, not the younger one",
        ),
        (
            "long-writes-lost",
            "            writes, first, last = writes[whole], low[whole], high[whole]",
            "            writes, first, last = writes[:0], low[whole], high[whole]",
            "the middle of a write over many places is nowhere",
        ),
        (
            "hidden-in-part",
            "                hides = np.flatnonzero((some >= youngest) & (self._end[some] >= end))",
            "                hides = np.flatnonzero(some >= youngest)",
            "a race is over once a durable write hides a part of it",
        ),
    ),
    *states(
        "harness/powercut/crash/states.py",
        (
            "outstanding-by-block",
            "        blocks = np.flatnonzero(latest_ns[: -(-issued // size)] >= instant)",
            "        blocks = np.flatnonzero(latest_ns[: -(-issued // size)] > instant)",
            "the last write that becomes durable of its neighbours is so at that instant",
        ),
    ),
    *states(
        "harness/powercut/recover/uml/shown.py",
        (
            "torn-forgotten",
            "                self._special,\n                special,",
            "                special,",
            "what was torn in the last state stays",
        ),
        (
            "durable-stays",
            "                self.layers.by_durability[low:high],\n",
            "",
            "what is durable in one state of two stays as it was",
        ),
        (
            "moved-in-its-turn",
            "writes, key=lambda one: (point.get(one, one), one in point, one)",
            "writes",
            "a write that was moved comes in the order of submission",
        ),
    ),
)
