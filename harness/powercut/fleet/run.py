# SPDX-License-Identifier: Apache-2.0
"""A run whose trials are made by the hosts of a fleet.

1. Every host makes trials of the cells (powercut.fleet.backlog).  What comes back are claims.
2. Each host owes the controls of every cell in which a claim of it counts: that another host's
   rig sees losses says nothing of this one's.
3. Each loss, each control and a drawn part of all else is fetched and judged again here
   (powercut.fleet.claims).
4. A host that is lost, says what is not so, or whose controls do not behave where those of others
   do, has no part in the run: what it made is made again elsewhere, but for losses that were
   judged here.  1 to 4 begin anew until nothing is left to do.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from powercut.campaign.assemble import Known
from powercut.campaign.confidence import Aim, aims_at
from powercut.campaign.run import Run, RunOptions
from powercut.fleet.backlog import Backlog
from powercut.fleet.cargo import Cargo, program_digests
from powercut.fleet.claims import (
    FalseClaim,
    accept,
    fetch,
    fetch_row,
    judge_again,
    keep,
    row_of,
    same_trial,
)
from powercut.fleet.fleet import Fleet, FleetHost
from powercut.fleet.identity import identity_of
from powercut.fleet.ledger import Claim, Item, Ledger
from powercut.fleet.link import HostLost, TrialTrouble
from powercut.fleet.messages import Opening, Order
from powercut.fleet.own import programs_of, refuse_own, require_same_programs
from powercut.fleet.row_claims import rows_for
from powercut.model.errors import HostError
from powercut.model.events import Notice, Phase, TrialPhase
from powercut.model.verdict import Verdict
from powercut.rig.rig import Rig
from powercut.rig.run_id import run_id_of
from powercut.scenario.load import Scenario
from powercut.scenario.plan import Cell, Plan, draw_trials
from powercut.store.binding import text_digest
from powercut.store.files import remove_tree
from powercut.store.fleet import FleetAccount
from powercut.store.layout import CONTROLS, ResultDir, folder_name
from powercut.store.place import read_place
from powercut.store.results import RunResult, TrialResult
from powercut.store.rows import TrialRows, fits_a_row
from powercut.store.trial_dir import TrialDir
from powercut.trial.controls import Control
from powercut.trial.job import TrialJob

_FAILURES_MAX: Final = 3
"""Hosts that may fail at one trial, and trials in a row that one host may fail at."""

FLEET: Final = "fleet"
"""Key of environment.json: the folder on the hosts, the seed of what is judged again, and the
digests of carried programs."""


class FleetRun(Run):
    """See the module."""

    def __init__(
        self,
        fleet: Fleet,
        rig: Rig,
        scenario: Scenario,
        plan: Plan,
        directory: ResultDir,
        options: RunOptions,
        aim: Aim | None,
        environment: Mapping[str, Any],
    ) -> None:
        refuse_own(plan)
        # No host knows the seed by which its claims are drawn before it has made them.
        programs = programs_of(rig, plan)
        told = environment.get(FLEET) or {
            "programs": programs,
            "folder": f"runs/{plan.scenario}-{directory.path.name}-{secrets.token_hex(4)}",
            "seed": secrets.token_hex(16),
        }
        require_same_programs(told.get("programs", {}), programs)
        environment = {**environment, FLEET: told}
        directory.write_environment(environment)
        super().__init__(rig, scenario, plan, directory, options, aim, environment)
        self._fleet = fleet
        self._told: dict[str, Any] = told
        self._row_file = rows_for(directory.path, plan)
        self._ledger = Ledger(plan, self._row_file, directory.place_of)
        self._failed: dict[tuple[str, int], list[str]] = {}
        self._backlog: Backlog[Item] = Backlog({})
        self._changing = threading.Lock()
        self._digest = text_digest(scenario.text.encode())

    def _rows(self) -> TrialRows | None:
        return self._row_file

    def run(self) -> RunResult:
        """As `Run.run`; what was there of it when it was interrupted stays."""
        try:
            return super().run()
        finally:
            if self._row_file is not None:
                self._row_file.close()

    def _run_cells(self) -> dict[str, list[TrialResult]]:
        with Cargo(self.rig, (cell.parameters for cell in self.plan.cells)) as cargo:
            here = identity_of(self.rig, self.plan, cargo.digests)
            self._fleet.open(here, partial(self._opening, cargo), self.on_event)
        try:
            self._restore()
            while self._is_work_left():
                self._all_at_work(self._make_cells)
                self._all_at_work(self._make_controls)
                for host, why in self._ledger.misbehaved():
                    self._lose(host, why, distrusted=True)
                self._all_at_work(self._judge_drawn)
        finally:
            self._fleet.close()
        return {cell.name: self._ledger.results(cell) for cell in self.plan.cells}

    def _run_controls(self, wanted: dict[str, tuple[str, Control]]) -> Known:
        """They were made with the cells."""
        known = self._ledger.known()
        return {key: known[key] for key in wanted if key in known}

    def _account(self) -> FleetAccount:
        return self._ledger.account(self._fleet.hosts)

    def _is_work_left(self) -> bool:
        """Puts what is missing on the backlog; whether that, or a control, is anything."""
        self._backlog = Backlog({cell.name: self._missing(cell) for cell in self.plan.cells})
        present = self._fleet.present
        owed = any(
            self._ledger.owed(host) or self._ledger.drawn(host, self._told["seed"])
            for host in present
        )
        left = not self._backlog.is_empty
        if left and not present:
            raise HostError(
                "no host of the fleet is left: "
                + "; ".join(f"{host.name}: {host.reason}" for host in self._fleet.hosts),
                hint=f"powercut run --resume {self.directory.path} --hosts HOSTS goes on",
            )
        return left or owed

    def _missing(self, cell: Cell) -> Iterator[Item]:
        """The trials of a cell that are to be made; after a loss others could change nothing."""
        for item in self._ledger.missing(cell):
            if self.aim is not None and aims_at(cell) and self._ledger.has_lost(cell):
                return
            yield item

    def _all_at_work(self, work: Callable[[FleetHost], None]) -> None:
        """Has each host at work with all of its jobs, until there is nothing left for any."""
        jobs = [host for host in self._fleet.present for _ in range(host.settings.jobs)]
        if not jobs:
            return
        pool = ThreadPoolExecutor(len(jobs), thread_name_prefix="fleet")
        try:
            futures = [pool.submit(self._guarded, work, host) for host in jobs]
            for future in futures:
                future.result()
        except BaseException:
            self.interrupted.set()
            self._backlog.end()
            self._fleet.close()
            raise
        finally:
            pool.shutdown(wait=not self.interrupted.is_set(), cancel_futures=True)

    def _guarded(self, work: Callable[[FleetHost], None], host: FleetHost) -> None:
        """Works until the host has nothing to do; what it is found out to be is noted."""
        try:
            work(host)
        except HostLost as error:
            self._lose(host, str(error).removeprefix(f"{host.name}: "))
        except FalseClaim as error:
            self._lose(host, str(error), distrusted=True)
        finally:
            self._backlog.leave(host.name)

    def _make_cells(self, host: FleetHost) -> None:
        while host.present and (taken := self._backlog.take(host.name)) is not None:
            group, item = taken
            made = False
            try:
                made = self._made(host, item)
            finally:
                if made:
                    self._backlog.done()
                else:
                    self._backlog.give_back(group, item)

    def _made(self, host: FleetHost, item: Item) -> bool:
        """Has a host make a trial; False if it could not.

        Raises HostLost, FalseClaim; and HostError for a trial that no host can make.
        """
        try:
            claim = self._claim(host, item)
        except TrialTrouble as error:
            self._count_failure(host, item, error)
            return False
        host.failures = 0
        if not self._ledger.add(claim):
            claim.place.remove()
            return False
        self.on_event(claim.told())
        return True

    def _count_failure(self, host: FleetHost, item: Item, error: TrialTrouble) -> None:
        """Raises HostLost for a host that fails again and again, HostError for such a trial."""
        with self._changing:
            failed = self._failed.setdefault((item.name, item.trial.number), [])
            failed.append(str(error))
            host.failures += 1
        if len(failed) >= _FAILURES_MAX:
            what = f"{item.name} #{item.trial.number}"
            raise HostError(f"{what} cannot be made: {'; '.join(dict.fromkeys(failed))}")
        if host.failures >= _FAILURES_MAX or len(self._fleet.present) > 1:
            # It gets no more orders: whatever is wrong there, others need not wait for it.
            raise HostLost(str(error))

    def _claim(self, host: FleetHost, item: Item) -> Claim:
        """Has a host make an item; what was lost is judged here at once."""
        job = self._job(item)
        place = self.directory.place_of(
            item.name, item.trial.number, control=item.control is not None
        )
        order = Order(
            id=0,
            name=item.name,
            control=job.control,
            parameters=item.parameters,
            trial=item.trial,
            scenario_sha256=self._digest,
        )

        def notify(phase: Phase) -> None:
            self.on_event(TrialPhase(f"{host.name}: {item.name}", item.trial.number, phase))

        programs = program_digests(self.rig, item.parameters)
        start = time.monotonic()
        done = host.link.make(order, notify)
        with self._changing:
            host.seconds += time.monotonic() - start
        folder = f"{self._folder(host)}/{place.relative}"
        claim = Claim(host, item, accept(done, folder, job, place, programs), place)
        if self._row_file is not None and item.control is None and fits_a_row(claim.result):
            claim.row = row_of(done, claim.result, host.name)
        else:
            keep(done, place, host.name)
        if claim.result.verdict is Verdict.LOSSY:
            self._judge(claim)
        return claim

    def _judge(self, claim: Claim) -> None:
        """Fetches a recording and judges it here.  Raises FalseClaim, HostLost; nothing is left of
        the claim then.
        """
        try:
            if claim.row is None:
                fetch(claim.host.link, claim.place)
            else:
                folder = f"{self._folder(claim.host)}/{claim.place.relative}"
                fetch_row(claim.host.link, claim.place, folder, claim.row)
            judge_again(claim.place, self.shelf)
        except FalseClaim:
            claim.place.remove()
            raise
        except HostError as error:
            claim.place.remove()
            raise HostLost(f"{claim.host.name}: {error}") from None
        self._ledger.set_judged(claim)

    def _make_controls(self, host: FleetHost) -> None:
        """Makes the controls that a host owes; each of its jobs takes the next."""
        while host.present:
            with self._changing:
                owed = self._ledger.owed(host)
                key = next((key for key in owed if key not in host.at_work), None)
                if key is None:
                    return
                host.at_work.add(key)
            name, control = owed[key]
            (*_, trial) = draw_trials(self.plan.seed, name, control.parameters, host.number)
            try:
                claim = self._claim(host, Item(name, control.parameters, trial, control))
                if not claim.judged:
                    self._judge(claim)
                self._ledger.add_control(key, claim)
            except TrialTrouble as error:
                raise HostLost(str(error)) from None
            finally:
                host.at_work.discard(key)
            self.on_event(claim.told())

    def _judge_drawn(self, host: FleetHost) -> None:
        """Judges the claims of a host that the seed draws; one job of it does."""
        with self._changing:
            if "drawn" in host.at_work:
                return
            host.at_work.add("drawn")
        try:
            for claim in self._ledger.drawn(host, self._told["seed"]):
                self._judge(claim)
        finally:
            host.at_work.discard("drawn")

    def _lose(self, host: FleetHost, why: str, *, distrusted: bool = False) -> None:
        """A host has no more part in the run."""
        with self._changing:
            if not host.present:
                return
            host.state, host.reason = ("distrusted" if distrusted else "lost"), why
        self._ledger.take_back(host, why, distrusted=distrusted)
        host.link.close()
        word = "is not believed" if distrusted else "takes no more part"
        self.on_event(
            Notice(f"{host.name} {word}: {why}. {host.repeated} of its trials are made elsewhere.")
        )

    def _restore(self) -> None:
        """Takes what an interrupted run had from hosts that are here; the rest is made again."""
        for path in self.directory.path.glob("c*/*/.*"):
            remove_tree(path)
        remove_tree(self.directory.path / CONTROLS)
        hosts = {host.name: host for host in self._fleet.present}
        for row in self._ledger.restore_rows(hosts):
            self.on_event(row.told(earlier=True))
        for cell in self.plan.cells:
            for item in self._ledger.missing(cell):
                place = self.directory.place_of(cell.name, item.trial.number)
                claim = self._restored(place, item, hosts)
                if claim is None:
                    place.remove()
                elif self._ledger.add(claim):
                    self.on_event(claim.told(earlier=True))

    def _restored(
        self, place: TrialDir, item: Item, hosts: Mapping[str, FleetHost]
    ) -> Claim | None:
        where = read_place(place.path) if place.sealed else None
        host = None if where is None else hosts.get(where.host)
        if where is None or host is None or not same_trial(place, self._job(item)):
            return None
        judged = where.judged_here and place.kept
        return Claim(host, item, place.read_verdict(), place, judged)

    def _job(self, item: Item) -> TrialJob:
        return TrialJob(
            self.plan.scenario,
            item.name,
            item.parameters,
            item.trial,
            run_id_of(item.trial.seed),
            None if item.control is None else item.control.kind,
            self._digest,
        )

    def _folder(self, host: FleetHost) -> str:
        return f"{self._told['folder']}/{folder_name(host.name)}"

    def _opening(self, cargo: Cargo, host: FleetHost) -> Opening:
        cargo.bring(host.link)
        return Opening(
            parts=cargo.parts,
            folder=self._folder(host),
            scenario=self.plan.scenario,
            cells={cell.name: cell.parameters for cell in self.plan.cells},
            jobs=host.settings.jobs,
            room=host.settings.room,
            silence_s=self._fleet.silence_s,
        )
