# SPDX-License-Identifier: Apache-2.0
"""Crash states that were recovered, and what those just after acks would have met."""

from __future__ import annotations

from typing import Self

from powercut.model.confidence import ONE_IN, AcksLookedAt
from powercut.store.record import Record


class Chance(Record):
    """How likely a fault would have been met, had there been one; not how likely there is none."""

    one_in: int
    """Of so many operations one is not durable when it is acknowledged."""

    met: float
    """The least probability with which the state after the ack of one of them was looked at."""


class StatesAtAcks(Record):
    """States of nothing but what was durable just after an ack."""

    acks: int
    """Instants of acks."""

    looked_at: int
    """After how many of these the state was looked at."""

    drawn: int
    """After how many because chance said so, and nothing else."""

    chances: tuple[Chance, ...]
    """For rarer and rarer faults, as far as the run is long enough for them."""

    @classmethod
    def of(cls, acks: AcksLookedAt) -> Self:
        chances = tuple(
            Chance(one_in=one, met=acks.chance(one)) for one in ONE_IN if acks.all >= one
        )
        return cls(acks=acks.all, looked_at=acks.looked_at, drawn=acks.drawn, chances=chances)

    def joined(self, more: Self) -> Self:
        """With those of another trial, whose draw was another: what one of them would have met
        counts.
        """
        met = {one.one_in: one.met for one in self.chances}
        for one in more.chances:
            met[one.one_in] = 1.0 - (1.0 - met.get(one.one_in, 0.0)) * (1.0 - one.met)
        return type(self)(
            acks=self.acks + more.acks,
            looked_at=self.looked_at + more.looked_at,
            drawn=self.drawn + more.drawn,
            chances=tuple(Chance(one_in=one_in, met=met[one_in]) for one_in in sorted(met)),
        )


class StatesRecovered(Record):
    """The crash states of a recording that were recovered and judged, besides what its cut left."""

    engine: str
    """What recovered them: `uml`, `guest`, `raw` for a log on the device itself, or `program`:
    User-Mode Linux, with the program's check on the host where that says the same."""

    states: int
    """How many: each differs from the others in content, or in what is required of it."""

    decided: int
    """Of these, how many have the same bytes as one that was recovered, and are judged by what
    came back from that."""

    went_on: int
    """After how many recoveries the workload went on writing, and lost nothing by it."""

    lossy: int
    """How many lost something."""

    by_policy: dict[str, int]
    """How many by the policy that drew them."""

    instants: int
    """At how many instants of a cut."""

    instants_all: int
    """Out of how many at which the set of legal states changes."""

    legal_log2: float
    """Binary logarithm of the number of states that were legal at the instants looked at."""

    at_acks: StatesAtAcks | None = None
    """After how many acks nothing but what was durable was recovered, and the chance with which
    that would have met a fault in one operation of so many."""
