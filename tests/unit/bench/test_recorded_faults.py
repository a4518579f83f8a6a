# SPDX-License-Identifier: Apache-2.0
"""States until a fault is found in a recording: each judged once, whatever draws it."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

from bench.known_bugs.table import FAULTS
from bench.recorded_faults import RUNS, SEEDS, STATES_MAX, FaultyRun, search
from bench.representatives import UNIFORM, selected
from powercut.crash.shapes import POLICY
from powercut.explore.state_judge import Judgement
from powercut.model.machine import ImageFormat
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.paths import PROGRAMS

LOG = next(one for one in FAULTS if one.name == "log-skips-a-sync").faulty


def recording():
    return SimpleNamespace(
        space=LOG.space,
        timeline=LOG.space.timeline,
        image_format=ImageFormat.RAW,
        filesystem=False,
    )


def test_no_state_is_judged_twice_and_what_is_not_there_is_not_found():
    judged = Counter()

    def found_in(state):
        judged[replace(state, policy="")] += 1
        return frozenset({"a skipped sync"} if LOG.loses(state) else ())

    found = search(recording(), ["a skipped sync", "another"], found_in, (POLICY, UNIFORM))
    assert set(judged.values()) == {1}
    assert found["a skipped sync"][POLICY] == [2] * SEEDS
    assert found["another"] == {way: [math.inf] * SEEDS for way in (POLICY, UNIFORM)}


def test_a_search_ends_with_the_last_fault_and_counts_states_from_one():
    states = list(selected(LOG.space, 0, POLICY, 0))[:STATES_MAX]

    def found_in(state):
        return frozenset({"here"} if state == states[4] else ())

    found = search(recording(), ["here"], found_in, (POLICY,))
    assert found["here"][POLICY][0] == 5


def lost(*lsns):
    ranges = tuple(LsnRange(lsn, lsn) for lsn in lsns)
    finding = Finding(FindingKind.LOST, Verdict.LOSSY, "lost", ranges)
    return Judgement((finding,), ())


def test_a_fault_shows_by_the_operation_that_is_lost():
    run = FaultyRun("", "known", "", {0: "first", 2: "third"}, period=3)
    assert run.found(lost(4)) == {"first"}
    assert run.found(lost(2, 6)) == {"third"}
    assert run.found(lost(5)) == frozenset()
    assert run.found(Judgement((), ())) == frozenset()


def test_every_run_has_a_program_and_a_name_of_its_own():
    faults = [fault for run in RUNS for fault in run.faults.values()]
    assert len(set(faults)) == len(faults) >= 16
    assert all((PROGRAMS / run.program).is_file() for run in RUNS)
