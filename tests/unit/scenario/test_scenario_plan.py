# SPDX-License-Identifier: Apache-2.0
"""Plans: pure, seeded, and stable from version to version."""

from __future__ import annotations

import hashlib
from pathlib import Path

from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.plan import (
    STOP_WITHIN,
    DiskStop,
    Trial,
    Trigger,
    TriggerKind,
    derive_seed,
    draw_between,
    fresh_seed,
)

TEXT = (
    "powercut: 1\nname: p\ntrials: 50\n"
    "cut: {trigger: {random: [100ms, 600ms]}}\n"
    "matrix: {workload.streams: [1, 2]}\n"
)


def plan(seed: int, text: str = TEXT):
    return expand(parse_scenario(text, Path("f.yaml")), seed=seed)


def test_a_seed_is_the_documented_hash():
    digest = hashlib.sha256(b"powercut/1\x0042\x00honest\x003\x00cut").digest()
    assert derive_seed(42, "honest", 3, "cut") == int.from_bytes(digest[:8], "big") >> 1
    # Recorded results are repeated by their seeds: this number must never change.
    assert derive_seed(42, "honest", 3, "cut") == 4749512602998708594


def test_the_same_seed_makes_the_same_plan_and_another_one_another():
    assert plan(1) == plan(1)
    assert plan(1) != plan(2)


def test_a_new_cell_changes_no_other():
    more = TEXT.replace("[1, 2]", "[1, 2, 3]")
    assert plan(1, more).cells[:2] == plan(1).cells


def test_random_moments_fill_their_interval():
    trials = [trial for cell in plan(5).cells for trial in cell.trials]
    moments = [trial.trigger.value for trial in trials]
    assert len({trial.seed for trial in trials}) == len(trials) == 100
    assert all(trial.trigger.kind is TriggerKind.AFTER for trial in trials)
    assert all(100_000_000 <= moment <= 600_000_000 for moment in moments)
    assert min(moments) < 150_000_000
    assert max(moments) > 550_000_000


def test_the_disk_stops_at_any_of_the_next_requests_and_mostly_with_some_in_flight():
    trials = [trial for cell in plan(5).cells for trial in cell.trials]
    stops = [trial.disk_stop for trial in trials]
    assert [trial.disk_stop for cell in plan(5).cells for trial in cell.trials] == stops
    assert {stop.completions for stop in stops} <= set(range(STOP_WITHIN))
    assert len({stop.completions for stop in stops}) == 29
    assert sum(stop.taking for stop in stops) == 72
    # A trial is repeated by its seeds: these must never change.
    trial = Trial(1, 0, 4749512602998708594, Trigger(TriggerKind.ACKS, 7))
    assert trial.disk_stop == DiskStop(0, taking=True)


def test_fixed_triggers_are_taken_as_they_are():
    for setting, trigger in (
        ("acks: 7", Trigger(TriggerKind.ACKS, 7)),
        ("flushes: 3", Trigger(TriggerKind.FLUSHES, 3)),
        ("after: 20ms", Trigger(TriggerKind.AFTER, 20_000_000)),
    ):
        made = plan(1, f"powercut: 1\nname: p\ncut: {{trigger: {{{setting}}}}}\n")
        assert made.cells[0].trials[0].trigger == trigger


def test_draws_reach_both_ends():
    assert {draw_between(seed, 3, 5) for seed in range(9)} == {3, 4, 5}
    assert draw_between(2**63 - 1, 4, 4) == 4


def test_a_fresh_seed_can_be_typed():
    assert 0 <= fresh_seed() < 10**9
