# SPDX-License-Identifier: Apache-2.0
"""A run whose trials are made by the workers of an engine.

1. The engine hands out trials, several of one cell in a task.  What comes back are claims.
2. Each host owes the controls of every cell in which a claim of it counts: that another host's
   rig sees losses says nothing of this one's.  So a cell keeps to few hosts while others have
   work of their own.
3. Each loss, each control and a drawn part of all else is fetched and judged again here
   (powercut.cluster.claims).
4. A host that is lost, says what is not so, or whose controls do not behave where those of others
   do, has no part in the run: what it made is made again elsewhere, but for losses that were
   judged here.  1 to 4 begin anew until nothing is left to do.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Final

from powercut.campaign.assemble import Known
from powercut.campaign.confidence import Aim, aims_at
from powercut.campaign.run import Run, RunOptions
from powercut.cluster.cargo import Cargo, program_digests
from powercut.cluster.claims import accept, fetch, fetch_row, judge_again, keep, row_of, same_trial
from powercut.cluster.engine import Answer, Engine
from powercut.cluster.identity import identity_of
from powercut.cluster.ledger import Claim, Item, Ledger
from powercut.cluster.messages import (
    Begin,
    Done,
    Opening,
    Order,
    TrialAnswers,
    TrialOrders,
    Trouble,
)
from powercut.cluster.own import programs_of, refuse_own, require_same_programs
from powercut.cluster.roster import ClusterHost, FalseClaim, HostLost, Roster, parse
from powercut.cluster.row_claims import rows_for
from powercut.cluster.work import Drive, Todo
from powercut.model.errors import HostError
from powercut.model.verdict import Verdict
from powercut.paths import as_word
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

_AT_ONCE: Final = 32
"""Answers of hosts that are waited for at the same time, or claims that are judged."""

_TRIAL_S: Final = 1800.0
"""How long a trial may take: each of its stages has a deadline of its own, far below."""

ROOM: Final = 2 << 30
"""Bytes that stay free on a host."""

FLEET: Final = "fleet"
"""Key of environment.json: the folder on the hosts, the seed of what is judged again, and the
digests of carried programs."""


class ClusterRun(Run):
    """See the module."""

    def __init__(
        self,
        engine: Engine,
        rig: Rig,
        scenario: Scenario,
        plan: Plan,
        directory: ResultDir,
        options: RunOptions,
        aim: Aim | None,
        environment: Mapping[str, Any],
        cluster: str = "",
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
        environment = {**environment, FLEET: told, "cluster": cluster}
        directory.write_environment(environment)
        super().__init__(rig, scenario, plan, directory, options, aim, environment)
        self._engine = engine
        self._told: dict[str, Any] = told
        self._row_file = rows_for(directory.path, plan)
        self._ledger = Ledger(plan, self._row_file, directory.place_of)
        self._failed: dict[tuple[str, int], list[str]] = {}
        self._changing = threading.Lock()
        self._judging = threading.BoundedSemaphore(os.cpu_count() or 1)
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
            begin = partial(self._begin, cargo)
            take_back = self._take_back
            with Roster(self._engine, here, begin, self.on_event, take_back) as self._roster:
                self._roster.open()
                self._restore()
                while self._is_work_left():
                    self._make_cells()
                    self._at_once(self._controls_owed())
                    for host, why in self._ledger.misbehaved():
                        self._roster.lose(host, why, distrusted=True)
                    self._at_once(self._drawn())
        return {cell.name: self._ledger.results(cell) for cell in self.plan.cells}

    def _run_controls(self, wanted: dict[str, tuple[str, Control]]) -> Known:
        """They were made with the cells."""
        known = self._ledger.known()
        return {key: known[key] for key in wanted if key in known}

    def _account(self) -> FleetAccount:
        return self._ledger.account(self._roster.hosts)

    def _is_work_left(self) -> bool:
        """Whether a trial is missing, or a control, or what is to be judged again."""
        self._roster.look()
        missing = any(any(True for _ in self._missing(cell)) for cell in self.plan.cells)
        if missing:
            self._roster.require_one(
                f"powercut run --resume {as_word(self.directory.path)} --cluster CLUSTER resumes it"
            )
        return missing or any(
            self._ledger.owed(host) or self._ledger.drawn(host, self._told["seed"])
            for host in self._roster.present
        )

    def _missing(self, cell: Cell) -> Iterator[Item]:
        """The trials of a cell that are to be made; after a loss others could change nothing."""
        for item in self._ledger.missing(cell):
            if self.aim is not None and aims_at(cell) and self._ledger.has_lost(cell):
                return
            yield item

    def _make_cells(self) -> None:
        """Has the engine make what is missing."""
        failed = partial(self._count_failure, None)
        self._todo = Todo({cell.name: self._missing(cell) for cell in self.plan.cells})
        Drive(self._roster, "trials", self._text, self._take, failed).run(self._todo)

    def _text(self, context: str, items: Sequence[Item]) -> str:
        orders = tuple(
            Order(
                name=item.name,
                control=None if item.control is None else item.control.kind,
                parameters=item.parameters,
                trial=item.trial,
                scenario_sha256=self._digest,
            )
            for item in items
        )
        return TrialOrders(context=context, orders=orders).model_dump_json()

    def _take(self, host: ClusterHost, items: Sequence[Item], answer: Answer) -> Iterator[Item]:
        """What came of a batch.  Raises HostError for a trial that no host can make."""
        answers = parse(answer, TrialAnswers).answers
        if len(answers) != len(items):
            raise FalseClaim("it answers for other trials than it was asked for")
        for item, said in zip(items, answers, strict=True):
            if isinstance(said, Trouble):
                self._count_failure(host, item, said.why)
                continue
            host.failures = 0
            self._todo.took(item.name, said.seconds)
            with self._changing:
                host.seconds += said.seconds
            claim = self._claim(host, item, said)
            if not self._ledger.add(claim):
                claim.place.remove()
                return
            self.on_event(claim.told())
            yield item

    def _at_once(self, work: Iterable[tuple[ClusterHost, Callable[[], None]]]) -> None:
        """Has much done at the same time; of a host that is lost, no more."""

        def guarded(host: ClusterHost, do: Callable[[], None]) -> None:
            try:
                if host.present:
                    do()
            except FalseClaim as error:
                self._roster.lose(host, str(error), distrusted=True)
            except HostLost as error:
                self._roster.lose(host, str(error))

        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="hosts") as pool:
            try:
                left = {pool.submit(guarded, host, do) for host, do in work}
                while left:
                    self._roster.look()
                    done, left = wait(left, 0.5, FIRST_COMPLETED)
                    for future in done:
                        future.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._engine.close()
                raise

    def _count_failure(self, host: ClusterHost | None, item: Item, why: str) -> None:
        """Raises HostLost for a host that fails again and again, HostError for such a trial."""
        with self._changing:
            failed = self._failed.setdefault((item.name, item.trial.number), [])
            failed.append(why if host is None else f"{host.name}: {why}")
            if host is not None:
                host.failures += 1
        if len(failed) >= _FAILURES_MAX:
            what = f"{item.name} #{item.trial.number}"
            raise HostError(f"{what} cannot be made: {'; '.join(dict.fromkeys(failed))}")
        if host is not None and (host.failures >= _FAILURES_MAX or len(self._roster.present) > 1):
            # It gets no more orders: whatever is wrong there, others need not wait for it.
            raise HostLost(why)

    def _claim(self, host: ClusterHost, item: Item, done: Done) -> Claim:
        """Takes what a host says of an item; what was lost is judged here at once."""
        job = self._job(item)
        place = self.directory.place_of(
            item.name, item.trial.number, control=item.control is not None
        )
        programs = program_digests(self.rig, item.parameters)
        folder = f"{self._folder(host)}/{place.relative}"
        result = accept(done, folder, job, place, programs)
        claim = Claim(host, item, result, place, tries=done.tries)
        at_once = item.control is None and done.tries == 1
        if self._row_file is not None and at_once and fits_a_row(result):
            claim.row = row_of(done, claim.result, host.name)
        else:
            keep(done, place, host.name)
            if host.folder is not None:  # its evidence is here
                fetch(host, place)
                remove_tree(host.folder / folder)
        if result.verdict is Verdict.LOSSY or done.tries > 1:
            self._judge(claim)
        return claim

    def _judge(self, claim: Claim) -> None:
        """Fetches a recording and judges it here.  Raises FalseClaim, HostLost; nothing is left of
        the claim then, nor of one whose host was lost meanwhile.
        """
        try:
            with self._judging:
                if claim.row is None:
                    fetch(claim.host, claim.place)
                else:
                    folder = f"{self._folder(claim.host)}/{claim.place.relative}"
                    fetch_row(claim.host, claim.place, folder, claim.row)
                judge_again(claim.place, self.shelf)
        except FalseClaim:
            claim.place.remove()
            raise
        except HostError as error:
            claim.place.remove()
            raise HostLost(str(error)) from None
        if not self._ledger.set_judged(claim):
            claim.place.remove()

    def _controls_owed(self) -> Iterator[tuple[ClusterHost, Callable[[], None]]]:
        """Has each host make the controls that it owes; gives what takes one."""
        for host in self._roster.present:
            owed = self._ledger.owed(host)
            for key, (name, control) in owed.items():
                (*_, trial) = draw_trials(self.plan.seed, name, control.parameters, host.number)
                item = Item(name, control.parameters, trial, control)
                text = self._text(self._roster.context(host.address), [item])
                call = self._engine.call("trials", text, [host.address])
                timeout_s = _TRIAL_S * len(owed)
                yield host, partial(self._take_control, host, key, item, call, timeout_s)

    def _take_control(
        self, host: ClusterHost, key: str, item: Item, call: Future[Answer], timeout_s: float
    ) -> None:
        said = parse(host.wait(call, timeout_s), TrialAnswers).answers
        if len(said) != 1:
            raise FalseClaim("it answers for other trials than it was asked for")
        if isinstance(said[0], Trouble):
            raise HostLost(said[0].why)
        claim = self._claim(host, item, said[0])
        if not claim.judged:
            self._judge(claim)
        if self._ledger.add_control(key, claim):
            self.on_event(claim.told())
        else:
            claim.place.remove()

    def _drawn(self) -> Iterator[tuple[ClusterHost, Callable[[], None]]]:
        """What judges each claim that the seed draws."""
        for host in self._roster.present:
            for claim in self._ledger.drawn(host, self._told["seed"]):
                yield host, partial(self._judge, claim)

    def _take_back(self, host: ClusterHost, why: str, distrusted: bool) -> str:
        self._ledger.take_back(host, why, distrusted=distrusted)
        return "trials are made elsewhere"

    def _restore(self) -> None:
        """Takes what an interrupted run had from hosts that are here; the rest is made again."""
        for path in self.directory.path.glob("c*/*/.*"):
            remove_tree(path)
        remove_tree(self.directory.path / CONTROLS)
        hosts = {host.name: host for host in self._roster.present}
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
        self, place: TrialDir, item: Item, hosts: Mapping[str, ClusterHost]
    ) -> Claim | None:
        where = read_place(place.path) if place.sealed else None
        host = None if where is None else hosts.get(where.host)
        if where is None or host is None or not same_trial(place, self._job(item)):
            return None
        judged = where.judged_here and place.kept
        return Claim(host, item, place.read_verdict(), place, judged, tries=where.tries)

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

    def _folder(self, host: ClusterHost) -> str:
        return f"{self._told['folder']}/{folder_name(host.name)}"

    def _begin(self, cargo: Cargo, host: ClusterHost) -> Begin:
        cargo.bring(host)
        opening = Opening(
            parts=cargo.parts,
            folder=self._told["folder"],
            scenario=self.plan.scenario,
            cells={cell.name: cell.parameters for cell in self.plan.cells},
            room=ROOM,
        )
        return Begin(opening=opening)
