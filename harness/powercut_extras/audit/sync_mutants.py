# SPDX-License-Identifier: Apache-2.0
"""A program of which one sync is dropped at a time: who notices?

1. The program runs with all its syncs, under the tracer (workloads/synctrace), and is judged as any
   other: recorded, cut, recovered, with its control.  Only if it is SAFE does anything follow from
   what comes next.  The trace lists its call sites: system call, stack, file.
2. For each site it runs once more, and the calls of that site succeed and do nothing.  Powercut
   notices if a crash state loses something acknowledged.
3. The user's own test runs on this host, under the same tracer, without the calls of that site.  It
   notices if it fails; with all syncs it must pass.

An interrupted one resumes: what was recorded counts, as in any run, and so does what the user's
test said.

What no run misses is not proved needless: other disks, file systems and workloads were not tried,
and of the legal states only some.  A site whose calls did not come, or a program that the tracer
cannot follow, is not known: never needless.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from powercut import __version__
from powercut.campaign.run import Listener, RunOptions
from powercut.campaign.runner import resume_run, root_seed, run_scenarios
from powercut.model.confidence import STATES_MIN
from powercut.model.errors import UsageError
from powercut.model.events import RunStarted
from powercut.model.operations import Packet
from powercut.model.verdict import Verdict
from powercut.recording.sealed import SealedTrial
from powercut.scenario.choices import Writeback
from powercut.scenario.load import Scenario
from powercut.scenario.program_text import RecordOptions, program_scenario
from powercut.scenario.settings import ProgramSettings
from powercut.scenario.settings_program import ON_HOST
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult, RunResult
from powercut.workload.program.sync_trace import TRACER, SyncTrace, read_trace
from powercut_extras.audit.stored_syncs import Noticed, SyncMutant, SyncMutants, WithoutSync
from powercut_extras.audit.sync_order import SyncOrder, read_order, write_order
from powercut_extras.audit.sync_site import SyncSite
from powercut_extras.audit.sync_sites import named_sites

_SAID_MAX: Final = 200


@dataclass(frozen=True)
class MutationOptions:
    """What to try, and how."""

    record: RecordOptions
    test: tuple[str, ...] = ()
    """A command; empty for none."""

    test_s: float = 600.0
    sites_max: int = 24
    jobs: int = 1


def mutate_syncs(
    program: ProgramSettings,
    options: MutationOptions,
    *,
    seed: int | None,
    results: Path,
    listener: Listener,
) -> SyncMutants:
    """Runs the program with all its syncs, then without each.  Raises UsageError, HostError."""
    if options.test and program.root != ON_HOST:
        raise UsageError(
            "--test runs on this host, where a program with a root of its own has other files: "
            "which of its call sites are the same cannot be told",
            hint="leave out --test, or --root",
        )
    # A page that the kernel wrote early is made durable by the flush of any other sync.
    traced = program.model_copy(update={"syncs": "traced", "writeback": Writeback.USUAL})
    scenario = program_scenario(traced, options.record)
    order = SyncOrder(
        program=traced, record=options.record, test=options.test, test_s=options.test_s,
        sites_max=options.sites_max, jobs=options.jobs, seed=root_seed(scenario, seed),
        results=str(results),
    )  # fmt: skip
    return _Mutation(order, listener).run()


def resume_mutation(path: Path, *, jobs: int | None = None, listener: Listener) -> SyncMutants:
    """Goes on with the one whose first run is at `path`; its table again if that has ended.

    Raises UsageError if there is none or if this host is not as it was, HostError.
    """
    directory = ResultDir.open(path)
    order = read_order(directory)
    if jobs is not None:
        order = order.model_copy(update={"jobs": jobs})
    return _Mutation(order, listener, directory).run()


@dataclass
class _Mutation:
    """One pass over a program's call sites, from wherever it has come to."""

    order: SyncOrder
    listener: Listener
    directory: ResultDir | None = None
    """Of the first run; None before it begins."""

    begun: float = field(default_factory=time.monotonic)

    def run(self) -> SyncMutants:
        order = self.order
        test = _OwnTest(order) if order.test else None
        run = self._first()
        (cell,) = run.cells
        trace = _trace_of(run, cell)
        mutants = _planned(trace, order)
        tried = [one for one in mutants if not one.skipped]
        if cell.verdict is Verdict.SAFE and tried:
            without = self._without(tried)
            for one in tried:
                at = one.site.number
                looked = _believed(without[at], trace)
                said = self._tested(test, one.site) if test else None
                done = one.model_copy(update={"powercut": looked, "test": said})
                mutants = tuple(done if each is one else each for each in mutants)
        return SyncMutants(
            powercut=__version__,
            program=order.program.command,
            filesystem=order.record.filesystem,
            seed=run.seed,
            verdict=cell.verdict,
            acknowledged=cell.commits_acked,
            states=cell.states.states if cell.states else 0,
            reasons=(*cell.reasons, *trace.beyond),
            test=order.test,
            mutants=mutants,
            result=run.result_directory,
            seconds=round(time.monotonic() - self.begun, 1),
        )

    def _first(self) -> RunResult:
        """The program with all its syncs."""
        if self.directory is not None:
            return self._again(self.directory)
        scenario = program_scenario(self.order.program, self.order.record)
        return self._start(scenario, 1, self._take_first)

    def _take_first(self, directory: ResultDir) -> None:
        self.directory = directory
        self._keep()

    def _without(self, tried: Sequence[SyncMutant]) -> dict[int, WithoutSync]:
        """What came of the program without each site, by its number."""
        if self.order.without:
            run = self._again(ResultDir.open(Path(self.order.without)))
        else:
            dropped = {f"sync-{one.site.number}": one.site.key for one in tried}
            options = replace(self.order.record, dropped=dropped)
            scenario = program_scenario(self.order.program, options)
            run = self._start(scenario, self.order.jobs, self._take_second)
        cells = zip(tried, run.cells, strict=True)
        return {one.site.number: _without(run, cell) for one, cell in cells}

    def _take_second(self, directory: ResultDir) -> None:
        self._keep(without=str(directory.path))

    def _start(self, scenario: Scenario, jobs: int, take: Callable[[ResultDir], None]) -> RunResult:
        """A new run; `take` is told where it lies as soon as it begins."""

        def listen(event: Any) -> None:
            if isinstance(event, RunStarted):
                take(ResultDir.open(event.directory))
            self.listener(event)

        (run,) = run_scenarios(
            [scenario],
            seed=self.order.seed,
            results=Path(self.order.results),
            jobs=jobs,
            on_event=listen,
        ).runs
        return run

    def _again(self, directory: ResultDir) -> RunResult:
        """What came of a run that had begun, once it has ended."""
        if directory.ended:
            return directory.read_verdict()
        return resume_run(directory.path, RunOptions(self.order.jobs, on_event=self.listener))

    def _tested(self, test: _OwnTest, site: SyncSite) -> WithoutSync:
        said = self.order.tests.get(site.number) or test.without(site)
        self._keep(tests={**self.order.tests, site.number: said})
        return said

    def _keep(self, **changes: object) -> None:
        self.order = self.order.model_copy(update=changes)
        assert self.directory is not None
        write_order(self.directory, self.order)


def _trace_of(run: RunResult, cell: CellResult) -> SyncTrace:
    (trial,) = cell.trials
    directory = ResultDir.open(Path(run.result_directory)).at(trial.result_directory)
    return read_trace(SealedTrial(directory).lines)


def _planned(trace: SyncTrace, order: SyncOrder) -> tuple[SyncMutant, ...]:
    planned, tried, sites_max = [], 0, order.sites_max
    ((_, parameters),) = program_scenario(order.program, order.record).cells
    for site in named_sites(trace, parameters):
        skipped = ""
        if site.path.startswith("/"):
            skipped = "its file is not on the disk under test"
        elif tried == sites_max:
            skipped = f"only {sites_max} call sites were to be tried"
        tried += not skipped
        planned.append(SyncMutant(site=site, skipped=skipped))
    return tuple(planned)


def _without(run: RunResult, cell: CellResult) -> WithoutSync:
    (trial,) = cell.trials
    states = cell.states
    unknown = WithoutSync(
        noticed=Noticed.UNKNOWN,
        dropped=sum(call.dropped for call in _trace_of(run, cell).calls),
        states=states.states if states else 0,
        states_lost=states.lossy if states else 0,
        result=str(Path(run.result_directory, trial.result_directory)),
    )
    said = [one.message for one in trial.findings if one.verdict is trial.verdict]
    says = said[0] if said else "the recording says nothing"
    if trial.verdict is Verdict.LOSSY and unknown.dropped:
        return unknown.model_copy(update={"noticed": Noticed.YES, "says": says})
    if trial.verdict is Verdict.SAFE and unknown.states >= STATES_MIN:
        return unknown.model_copy(update={"noticed": Noticed.NO})
    if trial.verdict is Verdict.SAFE:
        says = f"only {unknown.states} states were recovered"
    return unknown.model_copy(update={"why": says})


def _believed(without: WithoutSync, trace: SyncTrace) -> WithoutSync:
    """Not noticing says nothing of a program that the tracer does not follow."""
    if without.noticed is Noticed.NO and trace.beyond:
        return without.model_copy(
            update={"noticed": Noticed.UNKNOWN, "why": "; ".join(trace.beyond)}
        )
    return without


class _OwnTest:
    """The user's own test, on this host, under the tracer."""

    def __init__(self, order: SyncOrder) -> None:
        """Runs it with all syncs.  Raises UsageError if it does not pass."""
        self._order = order
        if not TRACER.is_file():
            raise UsageError(f"{TRACER} is not built", hint="make -C workloads")
        if shutil.which(order.test[0]) is None:
            raise UsageError(f"--test: {order.test[0]}: there is no such program")
        ended, _, said = self._run(())
        if ended:
            raise UsageError(
                f"--test: with all syncs it {ended}: {said}", hint="it must pass as it is"
            )

    def without(self, site: SyncSite) -> WithoutSync:
        stack, _, path = site.key.partition(" ")
        ended, trace, said = self._run((f"drop={stack}", f"name={path.rpartition('/')[2]}"))
        dropped = sum(call.dropped for call in trace.calls)
        if not dropped:
            why = "; ".join(trace.beyond) or "the test does not come there"
            return WithoutSync(noticed=Noticed.UNKNOWN, dropped=0, says=ended, why=why)
        if ended:
            return WithoutSync(noticed=Noticed.YES, dropped=dropped, says=f"{ended}: {said}")
        if trace.beyond:
            why = "; ".join(trace.beyond)
            return WithoutSync(noticed=Noticed.UNKNOWN, dropped=dropped, why=why)
        return WithoutSync(noticed=Noticed.NO, dropped=dropped, says="passes")

    def _run(self, words: tuple[str, ...]) -> tuple[str, SyncTrace, str]:
        """How it failed, empty if it passed; what was traced; the end of what it printed."""
        with tempfile.TemporaryDirectory(prefix="powercut-syncs-") as folder:
            log = Path(folder, "notes")
            argv = [str(TRACER), f"log={log}", *words, "--", *self._order.test]
            with Path(folder, "said").open("w+b") as said:
                ended = self._call(argv, said.fileno())
                said.seek(0)
                text = said.read().decode(errors="replace").strip()[-_SAID_MAX:]
            notes = log.read_bytes() if log.exists() else b""
        return ended, read_trace([Packet(0, notes)]), " / ".join(text.splitlines())

    def _call(self, argv: list[str], said: int) -> str:
        test_s = self._order.test_s
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                timeout=test_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"did not end within {test_s:g} s"
        return f"ended with status {done.returncode}" if done.returncode else ""
