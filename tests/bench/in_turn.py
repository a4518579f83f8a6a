# SPDX-License-Identifier: Apache-2.0
"""The same exploration in several ways, in turn, a few states each at a time.

On a shared machine two runs one after the other compare the hours rather than the ways.  Here
each way is a process of its own that explores as `powercut explore` does, and waits for its turn
after each piece of work, so that all have the same neighbours.  What counts is the processor time
of a way's process and of its engines (powercut.machine.patience).  A way may be another checkout
of powercut: what was changed is then compared as it is used.

Two ways that were asked for the same states must find the same in them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import explore_turns
from powercut.model.errors import HostError
from powercut.model.versions import HOST
from powercut.paths import ROOT
from powercut.store.trial_dir import TrialDir

_TURN: Final = "turn\n"


@dataclass(frozen=True)
class Way:
    """One way to explore `states` states, drawn by `seed`: `engine` and `kernel` as there.

    `checkout` is the folder of the powercut that does it.
    """

    name: str
    states: int
    engine: str = "auto"
    kernel: str = HOST
    seed: int = 0
    checkout: Path = ROOT


@dataclass(frozen=True)
class Explored:
    """What came of a way.  `states` of them differ; time is without that of other ways' turns."""

    verdict: str
    states: int
    lossy: int
    seconds: float
    processor_seconds: float

    @property
    def states_per_s(self) -> float:
        """States decided per second of its own turns."""
        return self.states / self.seconds

    @property
    def states_per_processor_s(self) -> float:
        """States decided per second of processor time."""
        return self.states / self.processor_seconds


def explore_in_turn(trial: TrialDir, ways: Sequence[Way]) -> list[Explored]:
    """What each way came to.

    Raises HostError if one fails, or if two find other things in the same states.
    """
    with ExitStack() as stack:
        turns = [_Turns(way, trial, stack) for way in ways]
        waiting = list(turns)
        while waiting:
            waiting = [one for one in waiting if one.take()]
        explored = [one.explored() for one in turns]
    for way, one in zip(ways, explored, strict=True):
        for other, another in zip(ways, explored, strict=True):
            same = (way.states, way.seed) == (other.states, other.seed)
            if same and _found(one) != _found(another):
                raise HostError(
                    f"in the same states of {trial.path} {way.name} found {_found(one)}, "
                    f"and {other.name} found {_found(another)} (verdict, states, lossy states)"
                )
    return explored


def _found(explored: Explored) -> tuple[str, int, int]:
    return explored.verdict, explored.states, explored.lossy


class _Turns:
    """The process of a way; it ends with the stack."""

    def __init__(self, way: Way, trial: TrialDir, stack: ExitStack) -> None:
        self._way = way
        asked = {
            "trial": str(trial.path.resolve()),
            "run": str(trial.run.resolve()),
            "states": way.states,
            "engine": way.engine,
            "kernel": way.kernel,
            "seed": way.seed,
        }
        # By path: the powercut of an older checkout may not have this file.
        self._process = stack.enter_context(
            subprocess.Popen(
                [sys.executable, explore_turns.__file__, json.dumps(asked)],
                env=os.environ | {"PYTHONPATH": str(way.checkout / "harness")},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(self._process.kill)
        self._said = self._line()

    def take(self) -> bool:
        """Lets it work until it waits again; False once it has come to its end."""
        if self._said != _TURN:
            return False
        assert self._process.stdin is not None
        self._process.stdin.write(_TURN)
        self._process.stdin.flush()
        self._said = self._line()
        return self._said == _TURN

    def explored(self) -> Explored:
        """What it came to."""
        return Explored(**json.loads(self._said))

    def _line(self) -> str:
        """What it says next.  Raises HostError if it has ended without a word."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise HostError(f"the exploration of {self._way.name} failed: what it said is above")
        return line
