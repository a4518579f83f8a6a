# SPDX-License-Identifier: Apache-2.0
"""The hosts of a fleet, in words: what each made, what it cost, and how far it is believed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from powercut.model.confidence import percent
from powercut.report.words import count
from powercut.store.fleet import FleetAccount, HostAccount

STATES: Final = {
    "took-part": "took part",
    "refused": "REFUSED",
    "lost": "LOST",
    "distrusted": "NOT BELIEVED",
}


def host_rows(fleet: FleetAccount) -> Iterator[tuple[str, str, str, str, str]]:
    """Name, state, trials that count, those made again elsewhere, hours at work."""
    for host in fleet.hosts:
        yield (
            host.name,
            STATES[host.state],
            f"{host.trials:,}",
            f"{host.repeated:,}",
            f"{host.seconds / 3600:.2f}",
        )


def excluded(fleet: FleetAccount) -> Iterator[str]:
    """Each host that did not take part to the end, and why."""
    for host in fleet.hosts:
        if host.state != "took-part":
            yield f"{host.name} {STATES[host.state]}: {host.reason}"


def hosts_line(fleet: FleetAccount) -> str:
    """How many hosts made it, and how many had no part in it to the end."""
    out = sum(host.state != "took-part" for host in fleet.hosts)
    made = _who(fleet, "made these trials")
    return (
        f"{made}; {out} of {len(fleet.hosts)} did not take part to the end." if out else made + "."
    )


def checked(fleet: FleetAccount) -> str:
    """How far the word of the hosts was checked."""
    parts = _checked(fleet, "made these trials", "losses were fetched and judged again here")
    parts += _sample(fleet, "trials that lost nothing", "recordings")
    parts += _begun_again(fleet)
    return "; ".join(parts) + ". A host that makes up whole recordings would not be found out."


def checked_states(fleet: FleetAccount) -> str:
    """The same of an exploration, whose claims are batches of states."""
    judged = "states with a loss were judged again here"
    parts = _checked(fleet, "judged these states", judged)
    parts += _sample(fleet, "batches in which nothing was lost", "batches")
    return "; ".join(parts) + "."


def _checked(fleet: FleetAccount, did: str, judged: str) -> list[str]:
    """Who did it, and what became of the losses."""
    parts = [_who(fleet, did)]
    if fleet.losses_judged:
        parts.append(f"all {fleet.losses_judged:,} {judged}")
    return parts


def _begun_again(fleet: FleetAccount) -> Iterator[str]:
    """Trials that a host did not make at once: what the earlier tries came to no one knows."""
    again = [host for host in fleet.hosts if host.begun_again]
    if again:
        total = count(sum(host.begun_again for host in again), "trial")
        yield (
            f"{total} {'was' if total.startswith('1 ') else 'were'} begun more than once, on "
            f"{', '.join(host.name for host in again)}: each was judged again here, and what the "
            "earlier tries came to is not known"
        )


def _who(fleet: FleetAccount, did: str) -> str:
    return f"{count(sum(map(_counts, fleet.hosts)), 'host')} {did}"


def _sample(fleet: FleetAccount, claims: str, unit: str) -> Iterator[str]:
    """How many claims were drawn, and what that says of the others."""
    if fleet.claims:
        yield (
            f"so were {fleet.claims_judged:,} of {fleet.claims:,} {claims}, each with the same "
            "outcome"
        )
    if fleet.false_claims_upper_95 is not None and fleet.claims_judged < fleet.claims:
        yield (
            f"by itself this shows (95 % confidence) that of such {unit} fewer than "
            f"{percent(fleet.false_claims_upper_95)} would be judged otherwise"
        )


def _counts(host: HostAccount) -> bool:
    return host.trials > 0
