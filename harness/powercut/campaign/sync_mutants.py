# SPDX-License-Identifier: Apache-2.0
"""A program of which one sync is dropped at a time: who notices?

1. The program runs with all its syncs, under the tracer (workloads/synctrace), and is judged as any
   other: recorded, cut, recovered, with its control.  Only if it is SAFE does anything follow from
   what comes next.  The trace lists its call sites: system call, stack, file.
2. For each site it runs once more, and the calls of that site succeed and do nothing.  Powercut
   notices if a crash state loses something acknowledged.
3. The user's own test runs on this host, under the same tracer, without the calls of that site.  It
   notices if it fails; with all syncs it must pass.

What nobody notices is not proved needless: other disks, file systems and workloads were not tried,
and of the legal states only some.  A site whose calls did not come, or a program that the tracer
cannot follow, is not known: never needless.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from powercut import __version__
from powercut.campaign.run import Listener
from powercut.campaign.runner import root_seed, run_scenarios
from powercut.model.errors import UsageError
from powercut.model.operations import Packet
from powercut.model.verdict import Verdict
from powercut.recording.bound import read_lines
from powercut.rig.sync_sites import named_sites
from powercut.scenario.program_text import RecordOptions, program_scenario
from powercut.scenario.settings import ProgramSettings
from powercut.store.layout import ResultDir
from powercut.store.results import CellResult, RunResult
from powercut.store.sync_mutants import Noticed, SyncMutant, SyncMutants, WithoutSync
from powercut.store.sync_site import SyncSite
from powercut.workload.program.sync_trace import TRACER, SyncTrace, read_trace

STATES_MIN: Final = 32
"""Recovered states below which nothing follows from finding no loss."""

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
    start = time.monotonic()
    traced = program.model_copy(update={"syncs": "traced"})
    scenario = program_scenario(traced, options.record)
    seed = root_seed(scenario, seed)
    test = _OwnTest(options) if options.test else None
    (run,) = run_scenarios([scenario], seed=seed, results=results, on_event=listener).runs
    (cell,) = run.cells
    trace = _trace_of(run, cell)
    mutants = SyncMutants(
        powercut=__version__,
        program=program.command,
        filesystem=options.record.filesystem,
        seed=run.seed,
        verdict=cell.verdict,
        acknowledged=cell.commits_acked,
        states=cell.states.states if cell.states else 0,
        reasons=(*cell.reasons, *trace.beyond),
        test=options.test,
        mutants=_planned(trace, options.sites_max),
        result=run.result_directory,
    )
    tried = [one for one in mutants.mutants if not one.skipped]
    if cell.verdict is Verdict.SAFE and tried:
        without = _recorded(traced, options, tried, seed, results, listener)
        mutants = mutants.model_copy(
            update={
                "mutants": tuple(
                    one
                    if one.skipped
                    else one.model_copy(
                        update={
                            "powercut": _believed(without[one.site.number], trace),
                            "test": test.without(one.site) if test else None,
                        }
                    )
                    for one in mutants.mutants
                )
            }
        )
    return mutants.model_copy(update={"seconds": round(time.monotonic() - start, 1)})


def _trace_of(run: RunResult, cell: CellResult) -> SyncTrace:
    (trial,) = cell.trials
    return read_trace(
        read_lines(ResultDir.open(Path(run.result_directory)).at(trial.result_directory))
    )


def _planned(trace: SyncTrace, sites_max: int) -> tuple[SyncMutant, ...]:
    planned, tried = [], 0
    for site in named_sites(trace):
        skipped = ""
        if site.path.startswith("/"):
            skipped = "its file is not on the disk under test"
        elif tried == sites_max:
            skipped = f"only {sites_max} call sites were to be tried"
        tried += not skipped
        planned.append(SyncMutant(site=site, skipped=skipped))
    return tuple(planned)


def _recorded(
    program: ProgramSettings,
    options: MutationOptions,
    wanted: Sequence[SyncMutant],
    seed: int,
    results: Path,
    listener: Listener,
) -> dict[int, WithoutSync]:
    """What came of the program without each site, by its number."""
    dropped = {f"sync-{one.site.number}": one.site.key for one in wanted}
    scenario = program_scenario(program, replace(options.record, dropped=dropped))
    outcome = run_scenarios(
        [scenario], seed=seed, results=results, jobs=options.jobs, on_event=listener
    )
    (run,) = outcome.runs
    return {
        one.site.number: _without(run, cell) for one, cell in zip(wanted, run.cells, strict=True)
    }


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

    def __init__(self, options: MutationOptions) -> None:
        """Runs it with all syncs.  Raises UsageError if it does not pass."""
        self._options = options
        if not TRACER.is_file():
            raise UsageError(f"{TRACER} is not built", hint="make -C workloads")
        if shutil.which(options.test[0]) is None:
            raise UsageError(f"--test: {options.test[0]}: there is no such program")
        ended, _, said = self._run(())
        if ended:
            raise UsageError(
                f"--test: with all syncs it {ended}: {said}", hint="it must pass as it is"
            )

    def without(self, site: SyncSite) -> WithoutSync:
        """What it says without the calls of `site`."""
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
            argv = [str(TRACER), f"log={log}", *words, "--", *self._options.test]
            with Path(folder, "said").open("w+b") as said:
                ended = self._call(argv, said.fileno())
                said.seek(0)
                text = said.read().decode(errors="replace").strip()[-_SAID_MAX:]
            notes = log.read_bytes() if log.exists() else b""
        return ended, read_trace([Packet(0, notes)]), " / ".join(text.splitlines())

    def _call(self, argv: list[str], said: int) -> str:
        test_s = self._options.test_s
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
