# SPDX-License-Identifier: Apache-2.0
"""Which hosts made the trials of a run, what that cost, and how far their word was checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, Self

from pydantic import Field

from powercut.model.confidence import upper_bound
from powercut.store.record import Record

State = Literal["took-part", "refused", "lost", "distrusted"]
_WORST: Final[tuple[State, ...]] = ("took-part", "refused", "lost", "distrusted")


class HostAccount(Record):
    """What became of one host."""

    name: str
    """As the hosts file calls it."""

    state: State
    """`refused`: it is not as this host is; `lost`: it went away, or had no room; `distrusted`:
    what it said was not so, or its controls did not behave."""

    reason: str = ""
    """Why it did not take part to the end."""

    processor: str = ""
    """The model of its processors, as it says."""

    trials: int = 0
    """Trials, controls included, of which the verdict counts."""

    repeated: int = 0
    """Trials of it that do not count, and were made again elsewhere."""

    begun_again: int = 0
    """Trials of it that count and that it began more than once, as it says: each was judged here,
    and what the earlier tries came to is not known."""

    seconds: float = 0.0
    """How long it was at work, all its jobs added up."""


class FleetAccount(Record):
    """The hosts of a run."""

    hosts: tuple[HostAccount, ...] = Field(default_factory=tuple)
    """Each host of the hosts file."""

    claims: int = 0
    """Trials that a host called safe or survived, and that count."""

    claims_judged: int = 0
    """Of these, how many recordings were fetched and judged again, with the same outcome; drawn
    by a seed that no host knows."""

    losses_judged: int = 0
    """Losses whose recordings were fetched and judged again, with the same outcome: all that
    count."""

    false_claims_upper_95: float | None = None
    """Of the recordings behind the claims less than this part would be judged otherwise here, at
    95 %; null without claims.  A host that makes up whole recordings is beyond this bound."""

    @classmethod
    def over(cls, runs: Iterable[FleetAccount | None]) -> Self | None:
        """That of several runs together; None if no fleet made any of them."""
        accounts = [account for account in runs if account is not None]
        if not accounts:
            return None
        by_name: dict[str, list[HostAccount]] = {}
        for account in accounts:
            for host in account.hosts:
                by_name.setdefault(host.name, []).append(host)
        judged = sum(account.claims_judged for account in accounts)
        return cls(
            hosts=tuple(map(_together, by_name.values())),
            claims=sum(account.claims for account in accounts),
            claims_judged=judged,
            losses_judged=sum(account.losses_judged for account in accounts),
            false_claims_upper_95=upper_bound(0, judged) if judged else None,
        )


def _together(parts: list[HostAccount]) -> HostAccount:
    """One host in several runs; the worst of what became of it."""
    reasons = dict.fromkeys(part.reason for part in parts if part.reason)
    return HostAccount(
        name=parts[0].name,
        state=max((part.state for part in parts), key=_WORST.index),
        reason="; ".join(reasons),
        processor=next((part.processor for part in parts if part.processor), ""),
        trials=sum(part.trials for part in parts),
        repeated=sum(part.repeated for part in parts),
        begun_again=sum(part.begun_again for part in parts),
        seconds=round(sum(part.seconds for part in parts), 3),
    )
