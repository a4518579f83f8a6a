# SPDX-License-Identifier: Apache-2.0
"""The crash states of one recording, judged by the hosts of a fleet.

1. This host draws the states, and hands them out in batches.  What comes of a batch follows from
   the recording, the settings and the batch (powercut.fleet.study), so any host can judge it.
2. Each state in which a host finds anything is judged again here, and what is found here counts.
   So is one in twenty of each host's batches, drawn by a seed that no host knows, and one of each
   host at least.
3. A host of which a state is judged otherwise here is not believed: all its batches are judged
   again elsewhere.  So are those of a host that is lost.  1 to 3 begin anew until nothing is left.

Second cuts are not made so: a recovery that is put on record is not the same twice, so what a host
says of its states could not be judged again.
"""

from __future__ import annotations

import math
import random
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from powercut.crash.states import CrashState
from powercut.explore.explorer import explore
from powercut.explore.request import ExploreProgress, ExploreRequest, Listener
from powercut.explore.work import Answered, Answers, Batch, StateJudgement, Work, Workers
from powercut.fleet.backlog import Backlog
from powercut.fleet.cargo import Cargo
from powercut.fleet.claims import FalseClaim
from powercut.fleet.fleet import Fleet, FleetHost
from powercut.fleet.identity import study_identity
from powercut.fleet.ledger import JUDGED_PART
from powercut.fleet.link import HostLost, TrialTrouble
from powercut.fleet.messages import Judged, StateOrder, Study
from powercut.fleet.own import OWN_FILES, runs_on_own_files
from powercut.fleet.study import name_of
from powercut.model.confidence import upper_bound
from powercut.model.errors import HostError, UsageError
from powercut.model.events import Notice, RunEvent
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording import state_ref
from powercut.rig.engine_choice import choose_engine
from powercut.rig.engines import boots_recorded_kernel
from powercut.rig.rig import Rig
from powercut.store.exploration import ExploreResult
from powercut.store.fleet import FleetAccount
from powercut.store.manifest import MANIFEST
from powercut.store.packed import PACK
from powercut.store.trial_dir import TrialDir

BATCH: Final = 64
"""States of one order."""

Item = TypeVar("Item")
States = tuple[CrashState, ...]
_Loss = tuple[FindingKind, tuple[LsnRange, ...]]


@dataclass
class _Piece:
    """A batch, and what a host says of it."""

    states: States
    host: FleetHost | None = None
    judged: list[StateJudgement] | None = None
    boots: int = 0
    seen: int = 0
    """How many of its states were judged again here."""


def explore_on(
    fleet: Fleet,
    trial: TrialDir,
    wanted: ExploreRequest,
    *,
    on_event: Callable[[RunEvent], None],
    on_progress: Listener = lambda _: None,
) -> ExploreResult:
    """Explores the recording in `trial` on a fleet whose hosts have been made ready.

    Raises UsageError for what a fleet cannot do, and what powercut.explore.explorer raises.
    """
    refuse(trial, wanted)
    study = FleetStudy(fleet, trial, wanted, on_event, on_progress)
    return explore(trial, wanted, on_event=on_progress, spread=study)


def refuse(trial: TrialDir, wanted: ExploreRequest) -> None:
    """Raises UsageError for what a fleet cannot explore."""
    parameters = trial.read_record().parameters
    if wanted.budget.states is None:
        raise UsageError(
            "a budget of time has no meaning on many hosts: which states are judged must not "
            "depend on who is fast",
            hint="--budget 10000, a number of states",
        )
    if wanted.after or wanted.depth or wanted.atomic_unit is not None:
        raise UsageError(
            "second cuts and --atomic-unit are for this host alone: what others say of them could "
            "not be judged again",
            hint="leave out --after, --depth and --atomic-unit, or --hosts",
        )
    if runs_on_own_files(parameters):
        raise UsageError(OWN_FILES, hint="explore its recording here, without --hosts")
    choice = choose_engine(parameters, wanted.engine, kernel=wanted.kernel)
    if boots_recorded_kernel(choice.name):
        raise UsageError(
            f"engine {choice} boots the recorded guest, which a fleet does not have",
            hint="--engine uml, or explore here, without --hosts",
        )


class FleetStudy:
    """Workers of a fleet, to be used like those of this host (`Spread`, `Workers`)."""

    def __init__(
        self,
        fleet: Fleet,
        trial: TrialDir,
        wanted: ExploreRequest,
        on_event: Callable[[RunEvent], None],
        on_progress: Listener = lambda _: None,
    ) -> None:
        self._fleet = fleet
        self._on_progress = on_progress
        self._trial = trial
        self._wanted = wanted
        self._on_event = on_event
        self._seed = secrets.token_hex(16)  # no host knows it
        self._pieces: list[_Piece] = []
        self._backlog: Backlog[_Piece] = Backlog({})
        self._changing = threading.Lock()

    def over(self, work: Work, own: Workers) -> Workers:
        """Opens the fleet for the states of the recording."""
        self._own = own
        self._begun = time.monotonic()
        parameters = self._trial.read_record().parameters
        choice = choose_engine(parameters, work.engine, kernel=self._wanted.kernel)
        folder = f"recordings/{name_of(self._trial)}"
        files = _files_of(self._trial)

        def opening(cargo: Cargo, host: FleetHost) -> Study:
            cargo.bring(host.link)
            if not host.link.has(folder):
                host.link.bring(folder, files)
            return Study(
                parts=cargo.parts,
                recording=folder,
                engine=work.engine,
                kernel=self._wanted.kernel,
                prune=work.prune,
                seed=work.seed,
                policies=work.policies,
                model=work.model,
                jobs=host.settings.jobs,
                silence_s=self._fleet.silence_s,
            )

        with Cargo(Rig(), (parameters,)) as cargo:
            here = study_identity(choice, cargo.digests)
            self._fleet.open(here, partial(opening, cargo), self._on_event)
        return self

    def answers(self, batches: Iterator[Batch]) -> Iterator[Answered]:
        """Each batch, joined with its neighbours, with what is believed of it.

        Raises HostError if no host is left.
        """
        states = (state for batch in batches for state in _states(batch))
        self._pieces = [_Piece(states) for states in _in_batches(states)]
        try:
            while self._is_work_left():
                self._all_at_work()
                self._judge_findings()
                self._judge_drawn()
        finally:
            self._fleet.close()
        for piece in self._pieces:
            assert piece.host is not None
            assert piece.judged is not None
            yield piece.host.number, piece.states, Answers(tuple(piece.judged), piece.boots)

    @property
    def account(self) -> FleetAccount:
        """Batches are its claims."""
        count = {host.name: 0 for host in self._fleet.hosts}
        for piece in self._pieces:
            if piece.host is not None:
                count[piece.host.name] += 1
        sound = [piece for piece in self._pieces if not _notable(piece)]
        judged = sum(piece.seen == len(piece.states) for piece in sound)
        return FleetAccount(
            hosts=tuple(host.account(count[host.name]) for host in self._fleet.hosts),
            claims=len(sound),
            claims_judged=judged,
            losses_judged=sum(
                bool(_losses(one)) for piece in self._pieces for one in piece.judged or ()
            ),
            false_claims_upper_95=upper_bound(0, judged) if judged else None,
        )

    def _is_work_left(self) -> bool:
        left = [piece for piece in self._pieces if piece.judged is None]
        if left and not self._fleet.present:
            raise HostError(
                "no host of the fleet is left: "
                + "; ".join(f"{host.name}: {host.reason}" for host in self._fleet.hosts),
                hint="explore here, without --hosts",
            )
        self._backlog = Backlog({"states": left})
        return bool(left)

    def _all_at_work(self) -> None:
        jobs = [host for host in self._fleet.present for _ in range(host.settings.jobs)]
        pool = ThreadPoolExecutor(len(jobs), thread_name_prefix="fleet")
        try:
            for future in [pool.submit(self._work, host) for host in jobs]:
                future.result()
        except BaseException:
            self._backlog.end()
            self._fleet.close()
            raise
        finally:
            pool.shutdown()

    def _work(self, host: FleetHost) -> None:
        """Has a host judge batches until there is nothing left for it."""
        try:
            while host.present and (taken := self._backlog.take(host.name)) is not None:
                try:
                    self._ask(host, taken[1])
                except HostError:
                    self._backlog.give_back(*taken)
                    raise
                self._backlog.done()
        except FalseClaim as error:
            self._lose(host, str(error), distrusted=True)
        except (HostLost, TrialTrouble) as error:
            self._lose(host, str(error).removeprefix(f"{host.name}: "))
        finally:
            self._backlog.leave(host.name)

    def _ask(self, host: FleetHost, piece: _Piece) -> None:
        """Raises HostLost, TrialTrouble, FalseClaim."""
        order = StateOrder(id=0, states=tuple(map(state_ref.serialise, piece.states)))
        said = host.link.judge(order)
        if len(said.states) != len(piece.states):
            raise FalseClaim("it answers for other states than it was asked for")
        with self._changing:
            host.seconds += said.seconds
            if host.present:
                piece.host, piece.judged, piece.seen = host, list(_heard(said)), 0
                piece.boots = said.boots
                self._tell()

    def _tell(self) -> None:
        judged = [one for piece in self._pieces for one in piece.judged or ()]
        seconds = time.monotonic() - self._begun
        lossy = sum(bool(_losses(one)) for one in judged)
        budget = self._wanted.budget
        self._on_progress(ExploreProgress(len(judged), lossy, seconds, budget, "exploring"))

    def _judge_findings(self) -> None:
        """Judges again here every state in which a host has found something."""
        found = [
            (piece, number)
            for piece in self._pieces
            if not piece.seen
            for number, one in enumerate(piece.judged or ())
            if one.findings
        ]
        self._judge(found)

    def _judge_drawn(self) -> None:
        """Judges again here a part of what each host has found nothing in."""
        for host in self._fleet.present:
            mine = [piece for piece in self._pieces if piece.host is host and not _notable(piece)]
            draw = random.Random(f"{self._seed} {host.name}")
            drawn = draw.sample(mine, math.ceil(JUDGED_PART * len(mine)))
            self._judge(
                (piece, number)
                for piece in drawn
                if piece.seen < len(piece.states)
                for number in range(len(piece.states))
            )

    def _judge(self, wanted: Iterable[tuple[_Piece, int]]) -> None:
        chosen = list(wanted)
        places = iter(chosen)
        orders = _in_batches(piece.states[number] for piece, number in chosen)
        for _, _, answers in self._own.answers(orders):
            for ours, (piece, number) in zip(answers.judged, places, strict=False):
                if piece.judged is None:  # its host was found out meanwhile
                    continue
                self._compare(piece, number, ours)

    def _compare(self, piece: _Piece, number: int, ours: StateJudgement) -> None:
        assert piece.judged is not None
        assert piece.host is not None
        theirs = piece.judged[number]
        unsure = Verdict.INCONCLUSIVE in (_worst(ours), _worst(theirs))
        if not unsure and _losses(ours) != _losses(theirs):
            name = state_ref.state_id(piece.states[number])
            why = f"of state {name} it says: {_told(theirs)}; judged here: {_told(ours)}"
            self._lose(piece.host, why, distrusted=True)
            return
        # How it was decided there stays; what was found is ours.
        piece.judged[number] = StateJudgement(
            ours.findings, theirs.pruned, theirs.rerun, theirs.same_files, disk=theirs.disk
        )
        piece.seen += 1

    def _lose(self, host: FleetHost, why: str, *, distrusted: bool = False) -> None:
        """A host has no more part in it: what it judged is judged again elsewhere."""
        with self._changing:
            if not host.present:
                return
            host.state, host.reason = ("distrusted" if distrusted else "lost"), why
            for piece in self._pieces:
                if piece.host is host:
                    piece.host, piece.judged, piece.seen = None, None, 0
                    host.repeated += 1
        host.link.close()
        word = "is not believed" if distrusted else "takes no more part"
        self._on_event(
            Notice(f"{host.name} {word}: {why}. {host.repeated} of its batches are judged again.")
        )


def _files_of(trial: TrialDir) -> dict[str, Path]:
    """What of a recording is needed to judge its states, by name."""
    names = {*trial.check_seal(), MANIFEST, PACK}
    return {name: trial.path / name for name in sorted(names) if (trial.path / name).is_file()}


def _in_batches(items: Iterable[Item]) -> Iterator[tuple[Item, ...]]:
    rest = iter(items)
    while batch := tuple(islice(rest, BATCH)):
        yield batch


def _states(batch: Batch) -> Sequence[CrashState]:
    if not isinstance(batch, Sequence):
        raise TypeError("a second cut is not judged by other hosts")
    return batch


def _heard(said: Judged) -> Iterator[StateJudgement]:
    for one in said.states:
        findings = tuple(record.finding() for record in one.findings)
        disk = bytes.fromhex(one.disk)
        yield StateJudgement(findings, one.pruned, one.rerun, one.same_files, disk=disk)


def _notable(piece: _Piece) -> bool:
    return any(one.findings for one in piece.judged or ())


def _worst(judged: StateJudgement) -> Verdict:
    return max((finding.verdict for finding in judged.findings), default=Verdict.SAFE)


def _losses(judged: StateJudgement) -> frozenset[_Loss]:
    return frozenset(
        (finding.kind, finding.lsns)
        for finding in judged.findings
        if finding.verdict is Verdict.LOSSY
    )


def _told(judged: StateJudgement) -> str:
    return "; ".join(finding.message for finding in judged.findings)[:200] or "nothing is lost"
