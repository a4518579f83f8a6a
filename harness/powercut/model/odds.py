# SPDX-License-Identifier: Apache-2.0
"""With what chance the crash states that were looked at would have met a fault, had there been one.

A fault leaves some operations not durable when they are acknowledged.  It is *met* if the state of
nothing but what was durable just after the ack of one of them was looked at.  Of `all` acks `drawn`
were drawn at random, without repetition and without regard to what the program did there; others
were chosen for a reason, and `looked_at` counts them all.

Of `faulty` acks, wherever they are and whatever their period, all are missed by the draw with the
chance of the hypergeometric distribution, C(all - drawn, faulty) / C(all, faulty).  What was chosen
for a reason adds nothing, since a fault may keep away from it, until fewer than `faulty` acks are
left that were not looked at: then one was met for certain.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

ONE_IN: Final = (10, 100, 1000)
"""Of how many operations one is faulty: the faults that are told of."""


@dataclass(frozen=True)
class AcksLookedAt:
    """Of `all` acks `looked_at` had a state looked at; `drawn` of them were drawn at random."""

    all: int
    looked_at: int
    drawn: int

    def chance(self, one_in: int) -> float:
        """The least chance with which a fault in one operation of `one_in` would have been met; 0
        if the run acknowledged fewer than that.
        """
        faulty = self.all // one_in
        if not faulty:
            return 0.0
        if self.all - self.looked_at < faulty:
            return 1.0
        placements = math.comb(self.all, faulty)
        return (placements - math.comb(self.all - self.drawn, faulty)) / placements
