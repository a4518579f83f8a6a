# SPDX-License-Identifier: Apache-2.0
"""A survey of a recording: few crash states, spread over all of its run.

`Exploration` sees every instant before it begins again; of a recording with thousands of
instants a small budget would see only a few stretches.  A survey spends its budget so:

1. Half of it on the state that holds nothing but what is durable, just after acks.  The acks
   come in an order of which every beginning is spread over the run.  It is the harshest state
   of an instant at which something is promised, and the first that a lie loses.
2. The rest on the other policies in turn, one state each, at instants of every kind, in such an
   order of its own for each policy.
3. What is left then, since there were not as many states, on a sweep as `Exploration` makes it.

Without `durable-only` among its policies a survey begins with the second step; without a limit,
or without other policies, the first step takes every ack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from powercut.crash.explore import I64, Exploration, InstantKind, events
from powercut.crash.states import CrashState, Model

FIRST: Final = "durable-only"
"""The policy of the first step."""

_TRIES: Final = 8
"""Instants at which a policy that finds nothing may look before it is another's turn."""

_NEIGHBOURS: Final = 32
"""States of the first step are drawn in such groups, each in order of time: neighbours differ in
little, which is what an engine has to be sent."""


def spread(instants: I64, seed: int) -> I64:
    """`instants` in an order of which every beginning is spread evenly over all of them.

    The order counts in binary with the digits reversed (van der Corput), from a place that
    `seed` draws.
    """
    count = len(instants)
    if count < 2:
        return instants
    bits = (count - 1).bit_length()
    numbers = np.arange(1 << bits)
    order = np.zeros_like(numbers)
    for bit in range(bits):
        order |= (numbers >> bit & 1) << (bits - 1 - bit)
    begin = int(np.random.default_rng(seed).integers(count))
    return np.asarray(instants[(order[order < count] + begin) % count])


@dataclass
class Survey(Exploration):
    """An iterator over distinct states, as `Exploration`; see the module for the order."""

    def __iter__(self) -> Iterator[CrashState]:
        """The states, in the order of the module."""
        if self.model is Model.EXACT:
            if FIRST in self.policies:
                yield from self._at_acks()
            yield from self._in_turn()
        if not self._full:
            yield from super().__iter__()

    def _at_acks(self) -> Iterator[CrashState]:
        """The first step."""
        acks = events(self.space, [InstantKind.ACK])
        acks = spread(acks[np.isin(acks, self.instants)], self.seed)
        alone = set(self.policies) == {FIRST}
        left = self.limit if alone or self.limit is None else max(1, self.limit // 2)
        for at in range(0, len(acks), _NEIGHBOURS):
            for instant in np.sort(acks[at : at + _NEIGHBOURS]).tolist():
                if left == 0:
                    return
                for state in self._look(instant, FIRST):
                    left = None if left is None else left - 1
                    yield state
                if self._full:
                    return
        self._all_acks = True

    def _in_turn(self) -> Iterator[CrashState]:
        """The second step."""
        names = [name for name in self.policies if name != FIRST]
        orders = {
            name: iter(spread(self.instants, self.seed + number).tolist())
            for number, name in enumerate(names, 1)
        }
        while orders:
            for name in tuple(orders):
                tried = 0
                for instant in islice(orders[name], _TRIES):
                    tried += 1
                    states = list(self._look(instant, name))
                    if self._full:
                        return
                    yield from states
                    if states:
                        break
                if not tried:
                    del orders[name]

    def _look(self, instant: int, name: str) -> Iterator[CrashState]:
        """The first state of policy `name` at `instant`, if it is a new one."""
        self._looked_at[instant] = self._legal(instant)
        yield from self._visit(instant, [name], 0, 1)
