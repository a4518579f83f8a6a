# SPDX-License-Identifier: Apache-2.0
"""The crash states of one recording, judged by the workers of an engine.

1. This host draws the states, and the engine hands them out in batches.  What comes of a
   batch follows from the recording, the settings and the batch (powercut.cluster.study), so any
   host can judge it.
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
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from powercut.cluster.cargo import Cargo
from powercut.cluster.engine import Answer, Engine
from powercut.cluster.identity import study_identity
from powercut.cluster.ledger import JUDGED_PART
from powercut.cluster.messages import Begin, Judged, StateOrder, Study
from powercut.cluster.own import OWN_FILES, runs_on_own_files
from powercut.cluster.roster import ClusterHost, FalseClaim, Roster, parse
from powercut.cluster.study import name_of
from powercut.cluster.work import Drive, Todo
from powercut.crash.states import CrashState
from powercut.explore.explorer import explore
from powercut.explore.request import ExploreProgress, ExploreRequest, Listener
from powercut.explore.work import Answered, Answers, Batch, StateJudgement, Work, Workers
from powercut.model.confidence import upper_bound
from powercut.model.errors import HostError, UsageError
from powercut.model.events import RunEvent
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording import state_ref
from powercut.rig.engine_choice import choose_engine
from powercut.rig.engines import boots_recorded_kernel
from powercut.rig.rig import Rig
from powercut.store.exploration import ExploreResult
from powercut.store.fleet import FleetAccount
from powercut.store.manifest import MANIFEST, PACK
from powercut.store.trial_dir import TrialDir

BATCH: Final = 64
"""States of one order."""

_FAILURES_MAX: Final = 3

Item = TypeVar("Item")
States = tuple[CrashState, ...]
_Loss = tuple[FindingKind, tuple[LsnRange, ...]]


@dataclass
class _Piece:
    """A batch, and what a host says of it."""

    states: States
    host: ClusterHost | None = None
    judged: list[StateJudgement] | None = None
    boots: int = 0
    failures: int = 0
    seen: int = 0
    """How many of its states were judged again here."""


def explore_on(
    engine: Engine,
    trial: TrialDir,
    wanted: ExploreRequest,
    *,
    on_event: Callable[[RunEvent], None],
    on_progress: Listener = lambda _: None,
) -> ExploreResult:
    """Explores the recording in `trial` on the hosts of a cluster.

    Raises UsageError for what a cluster cannot do, and what powercut.explore.explorer raises.
    """
    refuse(trial, wanted)
    study = ClusterStudy(engine, trial, wanted, on_event, on_progress)
    return explore(trial, wanted, on_event=on_progress, spread=study)


def refuse(trial: TrialDir, wanted: ExploreRequest) -> None:
    """Raises UsageError for what a cluster cannot explore."""
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
            hint="leave out --after, --depth and --atomic-unit, or --cluster",
        )
    if runs_on_own_files(parameters):
        raise UsageError(OWN_FILES, hint="explore its recording here, without --cluster")
    choice = choose_engine(parameters, wanted.engine, kernel=wanted.kernel)
    if boots_recorded_kernel(choice.name):
        raise UsageError(
            f"engine {choice} boots the recorded guest, which a cluster does not have",
            hint="--engine uml, or explore here, without --cluster",
        )


class ClusterStudy:
    """Workers of a cluster, to be used like those of this host (`Spread`, `Workers`)."""

    def __init__(
        self,
        engine: Engine,
        trial: TrialDir,
        wanted: ExploreRequest,
        on_event: Callable[[RunEvent], None],
        on_progress: Listener = lambda _: None,
    ) -> None:
        self._engine = engine
        self._on_progress = on_progress
        self._trial = trial
        self._wanted = wanted
        self._on_event = on_event
        self._seed = secrets.token_hex(16)  # no host knows it
        self._pieces: list[_Piece] = []
        self._changing = threading.Lock()

    def over(self, work: Work, own: Workers) -> Workers:
        """Welcomes the hosts for the states of the recording."""
        self._own = own
        self._begun = time.monotonic()
        parameters = self._trial.read_record().parameters
        choice = choose_engine(parameters, work.engine, kernel=self._wanted.kernel)
        folder = f"recordings/{name_of(self._trial)}"
        files = _files_of(self._trial)

        def begin(cargo: Cargo, host: ClusterHost) -> Begin:
            cargo.bring(host)
            host.bring(folder, files)
            study = Study(
                parts=cargo.parts,
                recording=folder,
                engine=work.engine,
                kernel=self._wanted.kernel,
                prune=work.prune,
                seed=work.seed,
                policies=work.policies,
                model=work.model,
            )
            return Begin(study=study)

        self._cargo = Cargo(Rig(), (parameters,))
        with ExitStack() as stack:
            stack.enter_context(self._cargo)
            here = study_identity(choice, self._cargo.digests)
            welcome = partial(begin, self._cargo)
            self._roster = stack.enter_context(
                Roster(self._engine, here, welcome, self._on_event, self._take_back)
            )
            self._roster.open()
            self._held = stack.pop_all()
        return self

    def answers(self, batches: Iterator[Batch]) -> Iterator[Answered]:
        """Each batch, joined with its neighbours, with what is believed of it.

        Raises HostError if no host is left.
        """
        states = (state for batch in batches for state in _states(batch))
        self._pieces = [_Piece(states) for states in _in_batches(states)]
        try:
            while self._is_work_left():
                self._make()
                self._judge_findings()
                self._judge_drawn()
        finally:
            self._held.close()
        for piece in self._pieces:
            assert piece.host is not None
            assert piece.judged is not None
            yield piece.host.number, piece.states, Answers(tuple(piece.judged), piece.boots)

    @property
    def account(self) -> FleetAccount:
        """Batches are its claims."""
        count = {host.name: 0 for host in self._roster.hosts}
        for piece in self._pieces:
            if piece.host is not None:
                count[piece.host.name] += 1
        sound = [piece for piece in self._pieces if not _notable(piece)]
        judged = sum(piece.seen == len(piece.states) for piece in sound)
        return FleetAccount(
            hosts=tuple(host.account(count[host.name]) for host in self._roster.hosts),
            claims=len(sound),
            claims_judged=judged,
            losses_judged=sum(
                bool(_losses(one)) for piece in self._pieces for one in piece.judged or ()
            ),
            false_claims_upper_95=upper_bound(0, judged) if judged else None,
        )

    def _is_work_left(self) -> bool:
        left = any(piece.judged is None for piece in self._pieces)
        if left:
            self._roster.require_one("explore here, without --cluster")
        return left

    def _make(self) -> None:
        """Has the engine judge what is left."""
        left = (piece for piece in self._pieces if piece.judged is None)
        Drive(self._roster, "states", self._text, self._take, self._failed).run(
            Todo({"states": left})
        )

    def _text(self, context: str, pieces: Sequence[_Piece]) -> str:
        states = tuple(map(state_ref.serialise, pieces[0].states))
        return StateOrder(context=context, states=states).model_dump_json()

    def _failed(self, piece: _Piece, why: str) -> None:
        """Raises HostError for a batch that no host can judge."""
        piece.failures += 1
        if piece.failures >= _FAILURES_MAX:
            raise HostError(f"a batch of states cannot be judged: {why}")

    def _take(
        self, host: ClusterHost, pieces: Sequence[_Piece], answer: Answer
    ) -> Iterator[_Piece]:
        (piece,) = pieces
        said = parse(answer, Judged)
        if len(said.states) != len(piece.states):
            raise FalseClaim("it answers for other states than it was asked for")
        with self._changing:
            if not host.present:
                return
            piece.host, piece.judged, piece.seen = host, list(_heard(said)), 0
            piece.boots = said.boots
            host.seconds += said.seconds
        self._tell()
        yield piece

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
        for host in self._roster.present:
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
            self._roster.lose(piece.host, why, distrusted=True)
            return
        # How it was decided there stays; what was found is ours.
        piece.judged[number] = StateJudgement(
            ours.findings,
            theirs.pruned,
            theirs.rerun,
            theirs.same_files,
            disk=theirs.disk,
            repeats=ours.repeats,
        )
        piece.seen += 1

    def _take_back(self, host: ClusterHost, why: str, distrusted: bool) -> str:
        """Elsewhere it is judged again, whatever was wrong with the host."""
        del why, distrusted
        with self._changing:
            for piece in self._pieces:
                if piece.host is host:
                    piece.host, piece.judged, piece.seen = None, None, 0
                    host.repeated += 1
        return "batches are judged again"


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
