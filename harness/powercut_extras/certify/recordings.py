# SPDX-License-Identifier: Apache-2.0
"""Looks at the recordings of a certificate: each is there, as it was sealed, and judged again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from powercut.explore.trial import RecoveredStates
from powercut.model.errors import DamagedRecording, PowercutError
from powercut.recording.consent import foreign_commands, not_repeated
from powercut.recording.sealed import SealedTrial
from powercut.rig.engine_shelf import EngineShelf
from powercut.store.trial_dir import TrialDir
from powercut.verdict.judge import verdict_of
from powercut_extras.certify.confirm import recovered_again
from powercut_extras.certify.confirmation import read_confirmation

_NAMED_MAX: Final = 4


@dataclass(frozen=True)
class Depth:
    """How closely recordings are looked at."""

    deep: bool
    allow_missing: bool
    jobs: int
    seals: bool = True
    """Whether each is read and held against its seal."""


def missing_problems(missing: Sequence[TrialDir], count: int) -> Iterator[str]:
    """What is wrong with verdicts whose evidence is not there."""
    if missing:
        yield (
            f"{len(missing)} of {count} recordings are gone, and cannot be judged again: "
            f"{_named(missing)}; put them back, or accept it with --allow-missing"
        )


def _named(trials: Sequence[TrialDir]) -> str:
    named = ", ".join(trial.relative for trial in trials[:_NAMED_MAX])
    return f"{named} and {len(trials) - _NAMED_MAX} more" if len(trials) > _NAMED_MAX else named


@dataclass(frozen=True)
class RecordingCheck:
    """What came out of looking at one recording."""

    problems: tuple[str, ...]
    unchecked: tuple[str, ...]
    confirmed: bool


def look_at(trials: Sequence[TrialDir], how: Depth) -> list[RecordingCheck]:
    """Looks at all recordings, in the order of `trials`."""
    with EngineShelf() as shelf, ThreadPoolExecutor(how.jobs) as pool:
        return list(pool.map(lambda trial: _seen(trial, how.deep, shelf), trials))


def _seen(trial: TrialDir, deep: bool, shelf: EngineShelf) -> RecordingCheck:
    problems = _seal_problems(trial)
    unchecked: list[str] = []
    confirmed = False
    commands = foreign_commands([trial]) if deep and not problems else ()
    if told := not_repeated(commands):
        unchecked += [f"{trial.relative}: not repeated: {line}" for line in told]
    elif deep:
        problems += _judged_again(trial, shelf)
        confirmed = _confirm_again(trial, problems, unchecked)
    return RecordingCheck(tuple(problems), tuple(unchecked), confirmed)


def _seal_problems(trial: TrialDir) -> list[str]:
    try:
        trial.check_seal()
    except PowercutError as error:
        return str(error).splitlines()
    return []


def _judged_again(trial: TrialDir, shelf: EngineShelf) -> Iterator[str]:
    try:
        stored = trial.read_verdict()
        result = verdict_of(SealedTrial(trial), RecoveredStates(shelf, again=True))
    except PowercutError as error:
        yield str(error)
        return
    if result.keeps != stored.keeps:
        yield f"{trial.path}: judged again, its program promises otherwise: {result.keeps}"
    elif (result.verdict, result.commits_acked) != (stored.verdict, stored.commits_acked):
        yield (
            f"{trial.path}: judged again it is {result.verdict.name} with "
            f"{result.commits_acked} acknowledged records, and was {stored.verdict.name} with "
            f"{stored.commits_acked}"
        )
    elif result.lost_lsns != stored.lost_lsns:
        yield f"{trial.path}: judged again, other records are lost"


def _confirm_again(trial: TrialDir, problems: list[str], unchecked: list[str]) -> bool:
    """Recovers a disk once more whose loss another recovery has confirmed; whether it agreed."""
    try:
        known = read_confirmation(trial)
        if known is None or not known.confirmed:
            return False
        again = recovered_again(trial, trial.read_verdict())
    except DamagedRecording as error:
        problems.append(str(error))
    except PowercutError as error:
        unchecked.append(f"{trial.relative}: its confirmation could not be repeated: {error}")
    else:
        if (again.confirmed, again.lsns) == (True, known.lsns):
            return True
        problems.append(f"{trial.path}: the confirmation gives another outcome: {again.how}")
    return False
