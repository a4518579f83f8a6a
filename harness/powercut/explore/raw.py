# SPDX-License-Identifier: Apache-2.0
"""Explores a log on a raw device: many states of one instant at a time.

The policies are drawn as matrices of what survives.  States
that pieces cannot express (other orders of overlapping writes, ordered devices, weaker
models) are drawn one by one.

Three things keep the engine honest: states drawn at random, and the first of each
finding, are written to an image that the real reader reads; every state that is kept is
checked for being legal; and a state with a corrupt slot is read by the real reader.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.checkers.wal import check_log
from powercut.crash.explore import Coverage, GroupCoverage, InstantKind, events
from powercut.crash.legality import why_illegal
from powercut.crash.order import Selection
from powercut.crash.shapes import POLICY
from powercut.crash.states import CrashState, Model, StateSpace
from powercut.explore.findings import FindingCollector
from powercut.explore.request import Undrawn
from powercut.explore.state_images import StateImages
from powercut.explore.state_map import StateMapper
from powercut.model.confidence import AcksLookedAt
from powercut.model.observation import Observation
from powercut.model.units import NEVER
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.recording.disk import DiskRecording
from powercut.recover.raw import Moment, RawLog, Reading, fine
from powercut.rig.host_reader import read_on_host
from powercut.rig.image_open import write_image

I64 = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_COMPARED_MAX: Final = 100
_COMPARE_ONE_IN: Final = 200
_READ_S: Final = 60.0
_SINGLY: Final = frozenset({"reorder"})
_FEW_STATES: Final = 400


@dataclass(frozen=True)
class RawOptions:
    """What is wanted of an exploration, as far as it concerns raw logs."""

    model: Model
    policies: tuple[str, ...]
    at: tuple[InstantKind, ...]
    seed: int
    per_policy: int
    limit: int | None
    folder: Path
    named: tuple[CrashState, ...] = ()


class RawExploration:
    """Draws, reads and judges; ask `coverage` at any time."""

    def __init__(
        self,
        recorded: DiskRecording,
        options: RawOptions,
        collected: FindingCollector,
        mapper: StateMapper,
    ) -> None:
        self.recorded, self.options, self.collected = recorded, options, collected
        self.mapper = mapper
        self.space = recorded.space
        self.log = RawLog(
            recorded.directory.base_image, self.space, recorded.evidence.layout, recorded.run_id
        )
        self.instants = events(self.space, options.at)
        self.swept: frozenset[str] = frozenset()
        self.checked = self.compared = 0
        self._undrawn = Undrawn(options.named)
        self._images = StateImages(self.space)
        self._policies = RawPolicies(self.space, options.seed)
        self._seen: dict[tuple[int, int], set[int]] = {}
        self._drawn: Counter[str] = Counter()
        self._duplicates = 0
        self._legal: list[float] = []
        self._full = self._left_out = self._open = self._distrusted = False
        self._rounds = 0
        self._instants = 0  # of states drawn one by one
        self._all_acks = False
        self._groups: GroupCoverage | None = None
        self._acks: AcksLookedAt | None = None
        self._sample = random.Random(f"{options.seed}/compare")

    @property
    def saw_all_acks(self) -> bool:
        return self._all_acks or "durable-only" in self.swept

    def run(self, more: Callable[[], bool]) -> None:
        """Explores until it comes to an end, the limit is reached, or `more` says no; then judges
        what is named and was not drawn."""
        self._draw(more)
        for state in self._undrawn.rest():
            self._judge_one(state, named=True)

    def _draw(self, more: Callable[[], bool]) -> None:
        if self._one_by_one(self.options.policies):
            self._run_singly(self.options.policies, more)
            return
        matrix = [name for name in self.options.policies if name not in (*_SINGLY, POLICY)]
        done = 0
        while done < self.options.per_policy and matrix:
            share = self._share(done)
            groups = [matrix] if done else [matrix[:1], matrix[1:]]
            self._policies.begin_round()
            for names in groups:
                if not self._sweep(names, done, share, more):
                    return
                self.swept = self.swept | frozenset(names)
            done = share
            self._rounds += 1
            if not self._policies.open and done > 1:
                break
        singly = tuple(name for name in self.options.policies if name in _SINGLY)
        if singly and self.space.any_races:
            self._run_singly(singly, more)

    def _share(self, done: int) -> int:
        """How many states each policy may have drawn at each instant after the next sweep."""
        if not done:
            return 1
        fair = 64
        if self.options.limit is not None:
            left = self.options.limit - self.checked
            fair = -(-2 * left // max(1, len(self.instants)))
        return min(self.options.per_policy, max(fair, 16, 4 * done))

    def _one_by_one(self, policies: tuple[str, ...]) -> bool:
        # Few states come in the one order; many are read many at a time, instant by instant.
        limit = self.options.limit
        few = limit is not None and limit <= _FEW_STATES
        ordered = self.space.timeline.contract.ordered
        return (
            few
            or set(policies) == {POLICY}
            or ordered
            or self.options.model is not Model.EXACT
            or not policies
        )

    def _sweep(self, names: list[str], done: int, share: int, more: Callable[[], bool]) -> bool:
        """States number `done` to `share` of each policy at every instant; False to stop."""
        first = not self.swept
        races = bool(self.space.any_races)
        for instant in self.instants.tolist():
            moment = self.log.at(instant)
            if first:
                legal = self.space.legal_log2(instant) if races else moment.legal_log2
                self._legal.append(legal)
            drawn = [self._policies.draw(name, moment, done, share) for name in names]
            rows = np.concatenate([one for one in drawn if len(one)] or [no_states(moment)])
            owner = np.repeat(np.arange(len(names)), [len(one) for one in drawn])
            step = max(1, PIECES_MAX // max(1, rows.shape[1]))
            for low in range(0, len(rows), step):
                part = slice(low, low + step)
                self._judge(moment, rows[part], owner[part], names)
                if self._full:
                    return False
            if not more():
                self._left_out = True
                return False
        return True

    # --- judging --------------------------------------------------------------------

    def _judge(self, moment: Moment, pieces: Mask, owner: I64, names: list[str]) -> None:
        """Reads and judges the states of one instant; `names[owner[k]]` drew state k."""
        claims = self.recorded.evidence.claims
        required = claims.required(moment.instant)
        attempted = claims.attempted_before(moment.instant)
        reading = moment.read(pieces)
        fresh = self._fresh(reading, required)
        if not len(fresh):
            return
        for name, count in zip(names, np.bincount(owner[fresh]).tolist(), strict=False):
            if count:
                self._drawn[name] += count
        self.checked += len(fresh)
        for state in self._undrawn.at(moment.instant):
            own = moment.pieces_of(state)
            if own is not None and moment.read(own[None, :]).content[0] in reading.content[fresh]:
                self._undrawn.meet(state)
        answers = reading.answer[fresh]
        good = np.asarray(
            fine(self.log, moment.slots, answers, required, attempted).all(axis=1), dtype=np.bool_
        )
        if not self._background_fine(moment, required, attempted):
            good[:] = False
        told: dict[bytes, list[Finding]] = {}
        verdicts = [Verdict.SAFE] * len(fresh)
        for at in np.flatnonzero(~good).tolist():
            row = int(fresh[at])
            name = names[int(owner[row])]
            make = partial(moment.state, pieces[row], name)
            key = answers[at].tobytes()
            if key not in told:
                told[key] = self._look(reading, row, make(), required, attempted)
            self.collected.add(name, told[key], make)
            verdicts[at] = max((one.verdict for one in told[key]), default=Verdict.SAFE)
        missing = moment.missing(pieces[fresh])
        self.mapper.add_many(moment.instant, len(moment.writes), missing, verdicts)
        for at in np.flatnonzero(good).tolist() if self._sampling(len(fresh)) else ():
            row = int(fresh[at])
            self._compare(reading, row, moment.state(pieces[row], names[int(owner[row])]))
            break

    def _fresh(self, reading: Reading, required: LsnRange | None) -> I64:
        """The rows whose content was not yet seen with these requirements."""
        asked = (required.first, required.last) if required else (0, 0)
        seen = self._seen.setdefault(asked, set())
        unique, first = np.unique(reading.content, return_index=True)
        new = np.array([content not in seen for content in unique.tolist()], dtype=np.bool_)
        fresh = np.sort(first[new])
        self._duplicates += len(reading.content) - len(fresh)
        left = None if self.options.limit is None else self.options.limit - self.checked
        if left is not None and len(fresh) > left:
            self._full = True
            fresh = fresh[:left]
        seen.update(reading.content[fresh].tolist())
        return fresh

    def _background_fine(self, moment: Moment, required: LsnRange | None, attempted: int) -> bool:
        """Whether the slots that are the same in all states of the instant are in order."""
        slots = np.arange(self.recorded.evidence.layout.slots)
        good = fine(self.log, slots, self.log.background[None, :], required, attempted)[0]
        good[moment.slots] = True
        return bool(good.all())

    def _look(
        self,
        reading: Reading,
        row: int,
        state: CrashState,
        required: LsnRange | None,
        attempted: int,
    ) -> list[Finding]:
        """What the checker says; the first of each outcome is read from an image, too."""
        problems = why_illegal(self.space, state)
        if problems:
            return [_disagreement(f"it drew a state that is not legal: {problems[0]}")]
        if self.log.sure(reading, row) and self.compared < _COMPARED_MAX:
            self._compare(reading, row, state)
        # An engine that was wrong convicts nobody.
        if self.log.sure(reading, row) and not self._distrusted:
            observation = self.log.observation(reading, row)
        else:
            observation = self._from_image(state)
        return check_log(required, attempted, observation, self.recorded.evidence.layout)

    def _sampling(self, count: int) -> bool:
        """Whether to compare one of `count` states: the first of all, then one in so many."""
        some = any(self._sample.randrange(_COMPARE_ONE_IN) == 0 for _ in range(min(count, 64)))
        return self.compared < _COMPARED_MAX and (some or not self.compared)

    def _compare(self, reading: Reading, row: int, state: CrashState) -> None:
        """Whether the real reader, on an image of the state, sees the same."""
        self.compared += 1
        problems = why_illegal(self.space, state)
        if problems:
            finding = _disagreement(f"it drew a state that is not legal: {problems[0]}")
            self.collected.add(state.policy, [finding], lambda: state)
            return
        seen = self._from_image(state)
        mine = self.log.observation(reading, row)
        wrong = ""
        if not seen.complete:
            self.collected.add(state.policy, [_not_compared(seen)], lambda: state)
        elif seen.stretches != mine.stretches:
            wrong = "the log reader, on an image, sees another log"
        if wrong:
            self._distrusted = True
            self.collected.add(state.policy, [_disagreement(wrong)], lambda: state)

    def _from_image(self, state: CrashState) -> Observation:
        image = self.options.folder / "state.img"
        image.unlink(missing_ok=True)
        write_image(self.recorded.directory.base_image, self._images.writes(state), image)
        return read_on_host(
            self.recorded.parameters, self.recorded.run_id, image, timeout_s=_READ_S
        )

    # --- states drawn one by one ----------------------------------------------------

    def _run_singly(self, policies: tuple[str, ...], more: Callable[[], bool]) -> None:
        options = self.options
        left = None if options.limit is None else options.limit - self.checked
        drawn = Selection(policies, options.model, options.seed, options.per_policy, left).of(
            self.space, self.instants
        )
        for state in drawn:
            self._undrawn.meet(state)
            self._judge_one(state)
            if not more():
                self._left_out = True
                break
        coverage = drawn.coverage()
        self._all_acks = drawn.saw_all_acks
        self._groups, self._acks = coverage.groups, coverage.acks
        self._duplicates += coverage.duplicates
        self._open = not coverage.exhausted
        if not self._legal:
            self._legal = [coverage.legal_log2]
            self._rounds = 1
            self._instants = coverage.instants

    def _judge_one(self, state: CrashState, *, named: bool = False) -> None:
        claims = self.recorded.evidence.claims
        required = claims.required(state.instant)
        attempted = claims.attempted_before(state.instant)
        moment = self.log.at(state.instant)
        pieces = moment.pieces_of(state)
        reading = None if pieces is None else moment.read(pieces[None, :])
        sure = reading is not None and self.log.sure(reading, 0)
        if reading is not None and sure and self._sampling(1):
            self._compare(reading, 0, state)
        if reading is not None and sure and not self._distrusted:
            observation = self.log.observation(reading, 0)
        else:
            observation = self._from_image(state)
        findings = check_log(required, attempted, observation, self.recorded.evidence.layout)
        self.checked += 1
        self._drawn[state.policy] += 1
        self.collected.add(state.policy, findings, partial(_itself, state), named=named)
        self.mapper.add(state, findings)

    @property
    def _some_left(self) -> bool:
        return self._full or self._left_out or self._open

    def coverage(self) -> Coverage:
        most = max(self._legal, default=0.0)
        legal = most + float(np.log2(sum(2.0 ** (one - most) for one in self._legal) or 1.0))
        return Coverage(
            model=self.options.model,
            instants=self._instants or len(self._legal),
            instants_all=len(events(self.space, list(InstantKind))),
            legal_log2=legal,
            distinct=self.checked,
            duplicates=self._duplicates,
            by_policy=dict(self._drawn),
            exhausted=self._rounds > 0 and not (self._some_left or self._policies.some_left),
            groups=self._groups,
            acks=self._acks or self._swept_acks,
        )

    @property
    def _swept_acks(self) -> AcksLookedAt:
        every = len(events(self.space, [InstantKind.ACK]))
        return AcksLookedAt(every, every if self.saw_all_acks else 0, 0)


def _itself(state: CrashState) -> CrashState:
    return state


def _not_compared(seen: Observation) -> Finding:
    return Finding.unknown(f"the raw engine was not compared with the log reader: {seen.failure}")


def _disagreement(what: str) -> Finding:
    return Finding(
        FindingKind.DISAGREEMENT,
        Verdict.INCONCLUSIVE,
        f"the raw engine cannot be trusted: {what} (a bug in powercut)",
    )


# The policies of powercut.crash.policies for raw logs: many states of one instant at a time.
#
# States are drawn as matrices of what survives, a row each (see powercut.recover.raw).  A policy
# ends where the one of its name ends, but `torn` also tears all volatile writes at once, at random,
# without end.

PIECES_MAX: Final = 1 << 22
"""Elements of one matrix of pieces at most."""


class RawPolicies:
    """Draws states of one recording, in rounds that go further and further.

    `open` counts the draws of this round whose policy has not come to its end.
    """

    def __init__(self, space: StateSpace, seed: int) -> None:
        self._space = space
        self._seed = seed
        self.open = 0
        self._left_out = False  # states whose matrix would not have fitted into memory

    @property
    def some_left(self) -> bool:
        """Whether a policy has states that were not drawn, of those that it would draw."""
        return bool(self.open) or self._left_out

    def begin_round(self) -> None:
        """The next draws are those of a new round."""
        self.open = 0

    def draw(self, name: str, moment: Moment, done: int, share: int) -> Mask:
        """Rows number `done` to `share` that policy `name` draws."""
        if not len(moment.writes) and name != "durable-only":
            return no_states(moment)
        end = self._ends_at(name, moment)
        until = share if end is None else min(share, end)
        if end is None or end > share:
            self.open += 1
        # However large the matrix, it has to fit into memory.
        room = done + max(16, 16 * PIECES_MAX // max(1, len(moment.piece_cell)))
        if until > room:  # the rest is not drawn later
            self._left_out = True
            until = room
        if until <= done:
            return no_states(moment)
        rng = np.random.default_rng([self._seed, _stable(name), moment.instant, done])
        return self._rows(name, moment, np.arange(done, until), rng)

    def _ends_at(self, name: str, moment: Moment) -> int | None:
        """How many states policy `name` has; None if it has no end."""
        count = len(moment.writes)
        match name:
            case "durable-only" | "everything-issued":
                return 1
            case "all-but-one" | "only-one":
                return count
            case "prefixes":
                completed = self._space.completed_ns[moment.writes]
                return int((completed != NEVER).sum()) + 1
        # Blind draws: no sense in many more than there are states.
        groups = moment.groups if name == "torn" else count
        return None if groups > 20 else 4 << groups

    def _rows(self, name: str, moment: Moment, numbers: I64, rng: np.random.Generator) -> Mask:
        shape = (len(numbers), len(moment.writes))
        match name:
            case "durable-only":
                writes: Mask = np.zeros(shape, dtype=np.bool_)
            case "everything-issued":
                writes = np.ones(shape, dtype=np.bool_)
            case "all-but-one" | "only-one":
                order = np.random.default_rng([self._seed, moment.instant])
                picked = order.permutation(shape[1])[numbers]
                one = np.arange(shape[1])[None, :] == picked[:, None]
                writes = ~one if name == "all-but-one" else one
            case "prefixes":
                completed = self._space.completed_ns[moment.writes]
                rank = np.argsort(np.argsort(completed, kind="stable"), kind="stable")
                writes = (rank[None, :] < numbers[:, None]) & (completed != NEVER)[None, :]
            case "random-subsets":
                writes = rng.random(shape) < rng.random((shape[0], 1))
            case _:
                return self._torn(moment, numbers, rng)
        return np.asarray(writes[:, moment.piece_write], dtype=np.bool_)

    def _torn(self, moment: Moment, numbers: I64, rng: np.random.Generator) -> Mask:
        """Random units; of every other state only one write, with or without the others."""
        rows = len(numbers)
        units = rng.random((rows, moment.groups)) < rng.random((rows, 1))
        pieces = units[:, moment.piece_group]
        one = rng.integers(len(moment.writes), size=rows)
        others = moment.piece_write[None, :] != one[:, None]
        company = rng.random((rows, 1)) < 0.5
        single = np.where(others, company, pieces)
        return np.where((numbers % 2 == 0)[:, None], single, pieces)


def no_states(moment: Moment) -> Mask:
    """A matrix without rows."""
    return np.empty((0, len(moment.piece_cell)), dtype=np.bool_)


def _stable(name: str) -> int:
    """A number for a name that is the same in every process."""
    return int.from_bytes(name.encode()[:8], "little")
