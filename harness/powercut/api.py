# SPDX-License-Identifier: Apache-2.0
"""What `import powercut` gives its users (docs/api.md); only the pytest plugin imports it.

A thin layer over the functions that the command line calls: recordings of disks and of captured
folders look alike here, and what is asked of either is answered by its own room.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np

from powercut.campaign.folder import judge_again, write_state
from powercut.campaign.program_try import TryOrder, record_files, require_contract
from powercut.campaign.program_try import try_program as try_order
from powercut.campaign.runner import run_scenarios
from powercut.crash.arrays import I64
from powercut.crash.explore import InstantKind, events
from powercut.crash.exposure import exposure
from powercut.crash.kinds import Names
from powercut.crash.order import ALL_POLICIES, Selection
from powercut.crash.states import CrashState, Requirements, StateSpace
from powercut.explore.disks import names_of
from powercut.explore.request import PER_POLICY
from powercut.explore.trial import RecoveredStates
from powercut.model.contract import DeviceContract as Contract
from powercut.model.errors import PowercutError, UsageError
from powercut.model.exposure import ExposureReport
from powercut.model.timeline import Timeline
from powercut.model.verdict import Finding, Verdict
from powercut.paths import RESULTS
from powercut.recording.consent import require_consent, run_checks
from powercut.recording.disk import DiskRecording
from powercut.recording.folder import FolderRecording
from powercut.recording.materialize import materialize
from powercut.recording.open_recording import open_recording
from powercut.recording.sealed import TrialRecording
from powercut.report.publish import write_reports
from powercut.scenario.load import Scenario, load_scenario
from powercut.scenario.plan import fresh_seed
from powercut.scenario.program_text import RecordOptions
from powercut.store.layout import ResultDir
from powercut.store.results import RunResult
from powercut.verdict.judge import verdict_of
from powercut.witness.story import name_of
from powercut.workload.program.workload import find_program

if TYPE_CHECKING:
    from powercut_program import Session

__all__ = [
    "Contract", "Finding", "PowercutError", "Program", "Recording", "Verdict", "crash_states",
    "load", "open", "record", "run", "try_program",
]  # fmt: skip

AnyPath = str | PathLike[str]


class Verbs(Protocol):
    """A program as a Python class; by its `session` it says what it does."""

    def setup(self, folder: str, /) -> None: ...
    def run(self, folder: str, session: Session, /) -> None: ...
    def check(self, folder: str, session: Session, /) -> None: ...


@dataclass(frozen=True)
class Program:
    """A program under test: a command line that takes the verbs setup, run and check, and
    variables of its environment besides those that every program has.

    `Program(["./mydb-test", "--small"], env={"MYDB_CACHE": "0"})`
    """

    command: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, program: AnyProgram) -> Program:
        """The Program that `program` stands for: the path of an executable, a command line, or a
        class with the methods setup(folder), run(folder, session) and check(folder, session).

        Each verb runs in a process of its own, which loads the file of the class and makes an
        instance without arguments.  Raises UsageError for a class that has no file.
        """
        if isinstance(program, Program):
            return program
        if isinstance(program, type):
            return cls(class_command(program), {"PYTHONPATH": import_path()})
        return cls((str(program),) if isinstance(program, str | PathLike) else tuple(program))


AnyProgram = Program | AnyPath | Sequence[str] | type[Verbs]


def load(path: AnyPath) -> Scenario:
    """Reads and checks a scenario file.  Raises UsageError with every mistake in it."""
    return load_scenario(Path(path))


def run(
    scenario: Scenario | AnyPath, *, seed: int | None = None, results: AnyPath = RESULTS
) -> RunResult:
    """Runs a scenario, as `powercut run` does; recordings and reports are below `results`.

    `seed` replaces the scenario's own; where there is neither, one is drawn.  The result has
    `cells`, each with its `verdict`, and `as_expected`.  Raises UsageError, HostError.
    """
    given = scenario if isinstance(scenario, Scenario) else Path(scenario)
    (ran,) = run_scenarios([given], seed=seed, results=Path(results)).runs
    write_reports(ResultDir.open(Path(ran.result_directory)))
    return ran


def try_program(
    program: AnyProgram,
    *,
    acks: int | None = None,
    seconds: float = RecordOptions.seconds,
    filesystem: str = RecordOptions.filesystem,
    budget: int | str = RecordOptions.budget,
    seed: int | None = None,
    results: AnyPath = RESULTS,
    portable: bool = False,
) -> RunResult:
    """Cuts a program's power, on a recorded disk and on captured files, as `powercut try` does.

    It is cut after `acks` acknowledged operations or after so many `seconds`, whichever comes
    first; without `acks` it runs on after 500 while it does something new.  `budget` is how many
    crash states are looked at, of the disk and of the files under each promise.  With `portable`
    what POSIX alone would lose counts.  The result has `verdict`, and `cause` in a sentence.

    `assert powercut.try_program("./mydb-test").verdict is powercut.Verdict.SAFE`

    Raises UsageError for a program that does not keep the contract, HostError.
    """
    options = RecordOptions(filesystem=filesystem, seconds=seconds, budget=str(budget))
    order = replace(_order(program, acks, seed, results, options), portable=portable)
    require_contract(order)
    tried = try_order(order)
    write_reports(ResultDir.open(Path(tried.result_directory)))
    return tried


def record(
    program: AnyProgram,
    *,
    acks: int | None = None,
    seconds: float = RecordOptions.seconds,
    seed: int | None = None,
    results: AnyPath = RESULTS,
) -> Recording:
    """Records a program on captured files of this host until it is cut, and judges nothing.

    It takes seconds, no virtual machine and no root.  `acks` and `seconds` as in `try_program`.
    Raises UsageError if `setup` fails, HostError.
    """
    order = _order(program, acks, seed, results, RecordOptions(seconds=seconds))
    return open(record_files(order).path)


def _order(
    program: AnyProgram,
    acks: int | None,
    seed: int | None,
    results: AnyPath,
    options: RecordOptions,
) -> TryOrder:
    given = Program.of(program)
    env = tuple(f"{name}={value}" for name, value in given.env.items())
    return TryOrder(
        program=find_program(given.command).model_copy(update={"env": env}),
        options=options if acks is None else replace(options, acks=acks),
        seed=fresh_seed() if seed is None else seed,
        results=Path(results),
        goes_on=acks is None,
    )


def open(path: AnyPath, *, run_check: bool = False) -> Recording:
    """Opens the recording at `path`: of a trial, an imported log or a captured folder.

    `run_check` lets `verdict` run the commands that a recording from elsewhere names: read them
    first.  Raises UsageError if there is no recording, DamagedRecording if it is not as it was
    sealed.
    """
    return Recording(open_recording(Path(path)), run_check)


def crash_states(
    timeline: Timeline,
    contract: Contract,
    *,
    claims: Requirements | None = None,
    budget: int | None = None,
    seed: int = 0,
) -> Iterator[CrashState]:
    """The disks that a power cut may leave of `timeline` under `contract`, in the best order known.

    Each is distinct and has its `instant`, its `survivors` (numbers of requests), and what is
    `torn`.  With `claims` the states just after acks come first.  Without a `budget` they end when
    no policy finds another, which may be never.
    """
    space = StateSpace(replace(timeline, contract=contract), claims)
    return _drawn(space, events(space, tuple(InstantKind)), budget, seed)


class Recording:
    """One recording, read and checked (`powercut.open`).  Nothing here changes it."""

    def __init__(self, opened: DiskRecording | FolderRecording, run_check: bool) -> None:
        self._opened = opened
        self._run_check = run_check

    @property
    def timeline(self) -> Timeline:
        """Every request with its instants (ns): `requests`, the `contract`, the `cut`.  Of a folder
        the requests are writes, syncs and changes of sizes, names and attributes.
        """
        return self._opened.space.timeline

    @property
    def claims(self) -> Requirements | None:
        """What was promised: `ack_ns`, and `required(instant)`, the range of acks that must be
        there after a cut.  None if nothing is known of that.
        """
        return self._opened.space.claims

    def states(self, budget: int | None = None, *, seed: int = 0) -> Iterator[CrashState]:
        """Crash states, as `crash_states`, in the order in which `powercut explore` takes them."""
        opened = self._opened
        names = names_of(opened) if isinstance(opened, DiskRecording) else None
        first = opened.at_cut[:budget]
        limit = None if budget is None else budget - len(first)
        instants = opened.instants(tuple(InstantKind))
        return chain(first, _drawn(opened.space, instants, limit, seed, names))

    def missing(self, state: CrashState) -> tuple[int, ...]:
        """Numbers of the requests issued before the cut of which the state has nothing."""
        volatile = self._opened.space.volatile(state.instant)
        return tuple(np.setdiff1d(volatile, state.survivors).tolist())

    def name(self, write: int) -> str:
        """What a request was of: files, records or structures of the file system, as far as known;
        of a folder the change, such as "the renaming of new to value".
        """
        opened = self._opened
        return (
            opened.name_of(write) if isinstance(opened, FolderRecording) else name_of(opened, write)
        )

    def exposure(self) -> ExposureReport:
        """For how long each acknowledged record was not durable (ns).

        Raises UsageError unless it is a recording of powercut's own log on a disk.
        """
        if isinstance(self._opened, FolderRecording):
            raise UsageError("exposure is known of powercut's own log on a disk, not of a folder")
        return exposure(self._opened.evidence)

    def write_image(self, state: CrashState, path: AnyPath) -> Path:
        """Writes the disk that `state` is as the new file `path`; of a captured folder, a new
        folder.  Raises UsageError if it is there already, HostError.
        """
        if isinstance(self._opened, FolderRecording):
            write_state(self._opened, state, Path(path))
        else:
            materialize(self._opened, state, Path(path))
        return Path(path)

    def verdict(self) -> Verdict:
        """What the recording deserves, judged again: recovers crash states, which takes seconds to
        minutes, and runs a program's check.  Judged once, then remembered.

        Raises HostError for a recording from elsewhere that names commands, unless it was opened
        with `run_check`; UsageError for an imported log.
        """
        return self._judged[0]

    def findings(self) -> tuple[Finding, ...]:
        """What the verdict rests on; raises what `verdict` raises."""
        return self._judged[1]

    @cached_property
    def _judged(self) -> tuple[Verdict, tuple[Finding, ...]]:
        opened = self._opened
        with run_checks() if self._run_check else nullcontext():
            if isinstance(opened, FolderRecording):
                seen = judge_again(opened)
                found = [
                    Finding(one.kind, one.verdict, one.examples[0].message, one.lsns)
                    for one in seen.explored.findings
                ]
                return seen.verdict, (*found, *map(Finding.unknown, seen.reasons))
            if not isinstance(opened, TrialRecording):
                raise UsageError("a log of another tool has no verdict here: try `powercut verify`")
            require_consent(opened.directory, opened.parameters)
            result = verdict_of(opened.sealed, RecoveredStates(again=True))
            return result.verdict, tuple(one.finding() for one in result.findings)


def _drawn(
    space: StateSpace, instants: I64, limit: int | None, seed: int, names: Names | None = None
) -> Iterator[CrashState]:
    order = Selection(ALL_POLICIES, seed=seed, per_policy=PER_POLICY, limit=limit, names=names)
    return map(space.legal, order.of(space, instants))


def class_command(program: type) -> tuple[str, ...]:
    """What loads a class with the methods setup, run and check, and calls the one of a verb.

    It needs `import_path` in its PYTHONPATH.  Raises UsageError if no other process can load it.
    """
    try:
        file = Path(inspect.getfile(program))
    except (OSError, TypeError):  # typed at a prompt
        file = Path()
    if not file.is_file() or "<locals>" in program.__qualname__:
        raise UsageError(
            f"{program.__qualname__}: another process cannot load this class",
            hint="define it in a file, outside of functions",
        )
    found = importlib.util.find_spec("powercut_program")
    assert found is not None, "it is installed with powercut"
    loader = Path(str(found.origin)).resolve()
    # A script is loaded under its own name, so that its `if __name__ == "__main__"` does nothing.
    module = file.stem if program.__module__ == "__main__" else program.__module__
    return sys.executable, str(loader), os.path.relpath(file), f"{module}:{program.__qualname__}"


def import_path() -> str:
    """Where this process finds modules, but for Python's own and those that are installed."""
    own = {Path(path) for path in sysconfig.get_paths().values()}
    own |= {path / "lib-dynload" for path in own}
    return os.pathsep.join(
        path for path in sys.path if Path(path).is_dir() and Path(path).absolute() not in own
    )
