# SPDX-License-Identifier: Apache-2.0
"""The backlog and the ledger with simulated hosts: a trial is the time that it took elsewhere.

Simulated time passes from one end of a trial to the next; nobody waits.
"""

from __future__ import annotations

import heapq
import random
import resource
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from powercut.fleet.backlog import Backlog
from powercut.fleet.fleet import FleetHost
from powercut.fleet.hosts_file import HostSettings
from powercut.fleet.ledger import Claim, Ledger
from powercut.fleet.link import HostLink
from powercut.model.verdict import Verdict
from powercut.scenario.load import expand, parse_scenario
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult

SCENARIO = """powercut: 1
name: many
matrix: {machine.cache: [none, writeback, writethrough, directsync]}
filesystem: {type: raw}
"""
TOOK_S = (0.41, 0.44, 0.47, 0.52, 0.58, 0.75, 1.9)
"""What trials took, drawn from at random: most are alike, and some are slow."""


class Gone(TrialDir):
    """A claim without files."""

    def remove(self) -> None:
        """Nothing is there."""


@dataclass
class Simulated:
    ledger: Ledger
    hosts: list[FleetHost]
    made: int
    seconds: float
    most_under_way: int


def simulate(count: int, trials: int, *, jobs: int = 2, dying: int = 0) -> Simulated:
    """`dying` hosts are lost after their twentieth trial."""
    plan = expand(parse_scenario(SCENARIO, Path("many.yaml")), seed=7, trials=trials)
    ledger = Ledger(plan)
    hosts = []
    for number in range(1, count + 1):
        told = HostSettings(name=f"h{number}", address=f"h{number}", jobs=jobs)
        hosts.append(FleetHost(told, number, HostLink(told, None, "", silence_s=60)))
        hosts[-1].state = "took-part"
    drawn, now, made, most = random.Random(7), 0.0, 0, 0
    per_host = dict.fromkeys((host.name for host in hosts), 0)
    while True:
        backlog = Backlog({cell.name: ledger.missing(cell) for cell in plan.cells})
        if backlog.is_empty:
            return Simulated(ledger, hosts, made, now, most)
        free = [host for host in hosts if host.present for _ in range(jobs)]
        ends: list[tuple[float, int, FleetHost, tuple]] = []
        order = 0
        while free or ends:
            while free and not backlog.is_empty:
                host = free.pop(0)
                if host.present:
                    order += 1
                    took = now + drawn.choice(TOOK_S)
                    heapq.heappush(ends, (took, order, host, backlog.take(host.name)))
            most = max(most, len(ends))
            if not ends:
                break
            now, _, host, (group, item) = heapq.heappop(ends)
            if not host.present:
                backlog.give_back(group, item)
                continue
            made += 1
            per_host[host.name] += 1
            result = TrialResult(
                trial=item.trial.number, seed=item.trial.seed, trigger=str(item.trial.trigger),
                verdict=Verdict.SAFE, commits_acked=100, commits_attempted=101, commits_lost=0,
                result_directory=f"cells/{item.name}/{item.trial.number:04d}",
            )  # fmt: skip
            ledger.add(Claim(host, item, result, Gone(Path("run"), Path("run"))))
            backlog.done()
            if host.number <= dying and per_host[host.name] >= 20:
                host.state = "lost"
                backlog.leave(host.name)
                ledger.take_back(host, "it died", distrusted=False)
            free.append(host)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def check(done: Simulated, count: int, trials: int, dying: int) -> None:
    account = done.ledger.account(tuple(done.hosts))
    assert account.claims == 4 * trials  # each trial once
    assert done.made == 4 * trials + sum(host.repeated for host in account.hosts)
    assert [h.state for h in account.hosts].count("lost") == dying
    assert all(h.trials == 0 for h in account.hosts if h.state == "lost")
    assert done.most_under_way <= 2 * count


def test_forty_hosts_make_each_trial_once_though_three_of_them_die():
    done = simulate(40, 500, dying=3)
    check(done, 40, 500, 3)
    account = done.ledger.account(tuple(done.hosts))
    assert sum(host.repeated for host in account.hosts) == 3 * 20


def test_a_host_keeps_to_a_cell_so_that_it_owes_few_controls():
    done = simulate(4, 200)
    cells = [
        max(Counter(claim.item.name for claim in claims).values()) / len(claims)
        for claims in by_host(done.ledger).values()
    ]
    assert len(cells) == 4
    assert min(cells) > 0.9  # the others are what it lent a hand with, at the end


def by_host(ledger: Ledger) -> dict[str, list[Claim]]:
    found: dict[str, list[Claim]] = {}
    for claims in ledger._claims.values():
        for claim in claims.values():
            found.setdefault(claim.host.name, []).append(claim)
    return found


def test_what_is_judged_again_is_a_part_of_each_hosts_claims_and_one_at_least():
    done = simulate(4, 50)
    drawn = [claim for host in done.hosts for claim in done.ledger.drawn(host, "seed")]
    for host, claims in by_host(done.ledger).items():
        count = Counter(claim.item.name for claim in claims)
        mine = Counter(claim.item.name for claim in drawn if claim.host.name == host)
        assert mine == {name: -(-made // 20) for name, made in count.items()}
    again = [claim for host in done.hosts for claim in done.ledger.drawn(host, "seed")]
    assert drawn == again
    other = [claim for host in done.hosts for claim in done.ledger.drawn(host, "another")]
    assert drawn != other


@pytest.mark.campaign
def test_a_thousand_hosts_and_a_million_trials(capsys):
    start = time.monotonic()
    done = simulate(1000, 250_000, dying=3)
    seconds = time.monotonic() - start
    check(done, 1000, 250_000, 3)
    with capsys.disabled():
        print(  # noqa: T201 the figures are what this test is run for
            f"\n1,000 hosts, {done.made:,} trials in {seconds:.0f} s here, {done.seconds:.0f} s "
            f"simulated; {done.made / seconds:,.0f} a second; {done.most_under_way:,} under way "
            f"at most; {peak_mib():,.0f} MiB"
        )
