# SPDX-License-Identifier: Apache-2.0
"""The backlog and the ledger with simulated hosts: a trial is the time that it took elsewhere.

Simulated time passes from one end of a trial to the next; nobody waits.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import os
import random
import resource
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from powercut import __version__
from powercut.campaign.assemble import cell_results, outcomes_of_cells
from powercut.campaign.resume import Selection
from powercut.certify.build import certificate_of
from powercut.certify.certifier import write_certificate
from powercut.certify.verify import examine
from powercut.fleet.backlog import Backlog
from powercut.fleet.claims import accept, keep, row_of
from powercut.fleet.fleet import FleetHost
from powercut.fleet.hosts_file import HostSettings
from powercut.fleet.ledger import Claim, Item, Ledger
from powercut.fleet.link import HostLink
from powercut.fleet.messages import Done
from powercut.fleet.row_claims import rows_for
from powercut.model.verdict import Verdict
from powercut.rig.run_id import run_id_of
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.plan import Plan
from powercut.store.binding import binding_of, new_recording, text_digest
from powercut.store.certify_order import CertificateDir, Order, RunComponents, write_components
from powercut.store.layout import ResultDir
from powercut.store.manifest import FORMAT
from powercut.store.results import RunResult
from powercut.store.rows import LISTED, ROWS, fits_a_row
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult
from powercut.trial.job import TrialJob

SCENARIO = """powercut: 1
name: many
matrix: {machine.cache: [none, writeback, writethrough, directsync]}
filesystem: {type: raw}
"""
EVIDENCE = ("base.img", "console.txt", "disk.data", "disk.log", "history.bin", "observation.json",
            "recovery-console.txt", "recovery.data", "recovery.log")  # fmt: skip
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


class Store:
    """A run of a certificate, and what hosts say of its trials: whole claims, accepted like any."""

    def __init__(self, results: Path, trials: int) -> None:
        selection = Selection(trials=trials)
        order = Order(title="t", seed=7, command="powercut certify", scenarios=("many",),
                      strategy="product", selection=selection.as_json(), measure=False)  # fmt: skip
        self.directory = CertificateDir.create(results, order, {"many": SCENARIO})
        self.run = ResultDir.create(self.directory.runs, "many", 7)
        self.run.write_scenario(SCENARIO)
        self.run.write_environment({"seed": 7})
        write_components(self.run, RunComponents(components=(), cells={}))
        self.digest = text_digest(SCENARIO.encode())

    def open(self, plan: Plan) -> Ledger:
        self.plan = plan
        self.rows = rows_for(self.run.path, plan)
        return Ledger(plan, self.rows, self.run.place_of)

    def claim(self, host: FleetHost, item: Item, result: TrialResult) -> Claim:
        place = self.run.place_of(item.name, item.trial.number)
        run_id = run_id_of(item.trial.seed)
        job = TrialJob("many", item.name, item.parameters, item.trial, run_id, None, self.digest)
        record = job.as_record(new_recording()).model_dump_json(indent=1) + "\n"
        binding = binding_of(json.loads(record)).name
        result = result.model_copy(
            update={"binding": binding, "timings_s": {"run": random.random(), "judge": 0.01}}
        )
        files = [
            {"name": name, "size": len(text), "sha256": hashlib.sha256(text).hexdigest()}
            for name, text in [
                *((name, random.randbytes(8)) for name in EVIDENCE),
                ("trial.json", record.encode()),
            ]
        ]  # fmt: skip
        manifest = json.dumps({"format": FORMAT, "files": files}, indent=1) + "\n"
        verdict = result.model_dump_json(indent=1) + "\n"
        told = {"trial.json": record, "manifest.json": manifest, "verdict.json": verdict}
        folder = f"runs/many/{host.name}/{place.relative}"
        done = Done(id=1, folder=folder, files=told, seconds=0.5)
        start = time.process_time()
        claim = Claim(host, item, accept(done, folder, job, place), place)
        if self.rows is not None and fits_a_row(claim.result):
            claim.row = row_of(done, claim.result, host.name)
        else:
            keep(done, place, host.name)
        self.accepting_s += time.process_time() - start
        return claim

    accepting_s = 0.0

    def finish(self, ledger: Ledger, hosts: list[FleetHost]) -> RunResult:
        """The verdicts and the certificate, on disk."""
        trials = {cell.name: ledger.results(cell) for cell in self.plan.cells}
        known = outcomes_of_cells(self.plan, trials)
        cells = cell_results(self.plan, trials, known, self.run, self.rows)
        result = RunResult.of(
            powercut=__version__, scenario="many", description="", scenario_file="many.yaml",
            seed=7, started="2026-11-21T00:00:00+00:00", seconds=1.0, cells=cells,
            fleet=ledger.account(tuple(hosts)),
        )  # fmt: skip
        if self.rows is not None:
            self.rows.close()
        self.run.write_verdict(result)
        write_certificate(self.directory, certificate_of(self.directory))
        return result

    def sizes(self) -> str:
        names = (self.run.path / ROWS, self.run.path / "verdict.json", self.directory.certificate)
        folders = self.run.trials()
        told = [f"{path.name} {path.stat().st_size:,}" for path in names]
        return f"{', '.join(told)} bytes; {len(folders)} folders"


def simulate(
    count: int, trials: int, *, jobs: int = 2, dying: int = 0, store: Store | None = None
) -> Simulated:
    """`dying` hosts are lost after their twentieth trial."""
    plan = expand(parse_scenario(SCENARIO, Path("many.yaml")), seed=7, trials=trials)
    ledger = Ledger(plan) if store is None else store.open(plan)
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
            if store is None:
                ledger.add(Claim(host, item, result, Gone(Path("run"), Path("run"))))
            else:
                ledger.add(store.claim(host, item, result))
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


def test_what_a_thousand_trials_leave_does_not_grow_with_them(tmp_path, monkeypatch):
    """With rows: folders, verdict.json and certificate.json of 400 trials are those of 200."""
    monkeypatch.setattr("powercut.fleet.row_claims.ROWS_FROM", 100)
    sizes = []
    for trials in (50, 100):
        store = Store(tmp_path / str(trials), trials)
        done = simulate(4, trials, dying=1, store=store)
        result = store.finish(done.ledger, done.hosts)
        check(done, 4, trials, 1)
        assert [cell.trials_in_all for cell in result.cells] == [trials] * 4
        assert [len(cell.trials) for cell in result.cells] == [LISTED] * 4
        assert len(store.run.trials()) == 4 * LISTED
        files = (store.run.path / "verdict.json", store.directory.certificate)
        sizes.append([path.stat().st_size for path in files])
        # Nobody has made their controls; that is all that is wrong.
        problems = examine(store.directory.path, seals=False).problems
        assert all("controls" in problem for problem in problems), problems
    (small, less), (large, more) = sizes
    assert abs(large - small) < 1000
    assert abs(more - less) < 1000


@pytest.mark.campaign
def test_a_thousand_hosts_and_a_million_trials(capsys, tmp_path):
    """As many as POWERCUT_SCALE says; a million take a quarter of an hour and 0.5 GB."""
    trials = int(os.environ.get("POWERCUT_SCALE", "250000"))
    store = Store(tmp_path, trials)
    start = time.process_time()
    done = simulate(1000, trials, dying=3, store=store)
    made_s = time.process_time() - start
    result = store.finish(done.ledger, done.hosts)
    finished_s = time.process_time() - start - made_s
    made_mib = peak_mib()
    check(done, 1000, trials, 3)
    assert [cell.trials_in_all for cell in result.cells] == [trials] * 4
    start = time.process_time()
    problems = examine(store.directory.path, seals=False).problems
    verified_s = time.process_time() - start
    with capsys.disabled():
        print(  # noqa: T201 the figures are what this test is run for
            f"\n1,000 hosts, {done.made:,} trials, {done.seconds:.0f} s simulated, "
            f"{done.most_under_way:,} under way at most; processor time: {made_s:.0f} s, of which "
            f"{store.accepting_s:.0f} s to accept claims, then {finished_s:.0f} s for verdict and "
            f"certificate, and {verified_s:.0f} s to verify it ({len(problems)} problems); "
            f"{made_mib:,.0f} MiB, {peak_mib():,.0f} MiB with verify; {store.sizes()}"
        )
