# SPDX-License-Identifier: Apache-2.0
"""Wrong crash models, planted one by one: the properties must refuse each of them."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from small_worlds import RAW, worlds

from powercut.crash import claims, evidence, explore, exposure, places, sets, states, survival
from powercut.model.units import NEVER

PROPERTIES = Path(__file__).parents[1] / "property"


def load_properties(file):
    name = f"{file}_for_mutants"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, PROPERTIES / f"{file}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


by_definition = load_properties("test_crash_by_definition")
states_by_definition = load_properties("test_crash_states_by_definition")


def flush_counts_what_was_in_flight(completed_ns, flush_submitted_ns, flush_done_ns):
    """A flush counted too early: it covers what completes before it ends."""
    earliest = np.append(np.minimum.accumulate(flush_done_ns[::-1])[::-1], np.int64(NEVER))
    return earliest[np.searchsorted(flush_done_ns, completed_ns, side="right")]


def flush_durable_at_its_submission(completed_ns, flush_submitted_ns, flush_done_ns):
    """A flush counted too early: it takes effect when it is submitted."""
    earliest = np.append(flush_submitted_ns, np.int64(NEVER))
    return earliest[np.searchsorted(flush_submitted_ns, completed_ns, side="right")]


def only_the_next_flush_counts(completed_ns, flush_submitted_ns, flush_done_ns):
    """Durable too late: a later flush that ends earlier is overlooked."""
    done = np.append(flush_done_ns, np.int64(NEVER))
    return done[np.searchsorted(flush_submitted_ns, completed_ns, side="right")]


def overwrites_in_the_wrong_order(index, runs, until=None):
    """Of several writes to one place the one submitted first shows."""
    pieces = real_pieces_of(index, runs, until)
    order = np.lexsort((-pieces.write, pieces.unit))
    return places.Pieces(pieces.unit[order], pieces.write[order], pieces.tags[order], pieces.widths)


def nothing_races(pieces, sets):
    """Writes in flight together keep the order of their submission."""
    return np.zeros(len(pieces.unit), dtype=np.bool_)


def never_given_up(self, lsns):
    """Records of a log that wraps are required for ever."""
    return np.full(len(lsns), NEVER, dtype=np.int64)


def every_place_counts(runs, layout):
    """A raw log's record is accepted wherever it lies."""
    return runs


real_pieces_of = places.pieces_of
real_durability_sets = sets.durability_sets


def durable_although_the_power_was_gone(timeline):
    """Whatever was issued is on the medium."""
    found = real_durability_sets(timeline)
    return sets.DurabilitySets(
        found.is_write, found.submitted_ns, found.submitted_ns, found.epoch, found.successor
    )


def once_durable_always_durable(found):
    """What is written over later does not matter."""
    found = real_merge(found)
    until = np.full(len(found.chunk), NEVER, dtype=np.int64)
    return exposure.Episodes(found.chunk, found.count, found.safe_ns, until, found.write)


real_merge = exposure._merge


def applied_in_the_wrong_order(self, state):
    """Of two writes to one place the one submitted first ends on top."""
    return real_application_order(self, state)[::-1]


def moved_too_far(self, state):
    """Whatever was in flight may move behind everything."""
    order = real_application_order(self, state)
    moved = [move.write for move in state.moves]
    return np.array([w for w in order if w not in moved] + moved, dtype=np.int64)


def nothing_in_flight_survives(self, instant):
    """What had not completed is never on the medium."""
    volatile = real_volatile(self, instant)
    return volatile[self.completed_ns[volatile] < instant]


def durable_writes_may_be_lost(self, instant):
    """Everything issued counts as volatile, and nothing is there for certain."""
    return np.zeros(0, dtype=np.int64)


def tears_do_not_matter(self, state):
    """Torn and whole count as the same content."""
    whole = states.CrashState(state.instant, state.survivors, (), state.moves)
    return real_fingerprint(self, whole)


def durable_writes_do_not_matter(self, state):
    """Only the survivors make the content."""
    return hash((state.survivors, state.torn, state.moves))


real_application_order = states.StateSpace.application_order
real_volatile = states.StateSpace.volatile
real_fingerprint = explore._Fingerprints.of

STATE_MUTANTS = [
    ("drawn", states.StateSpace, "application_order", applied_in_the_wrong_order),
    ("drawn", states.StateSpace, "application_order", moved_too_far),
    ("drawn", states.StateSpace, "durable", durable_writes_may_be_lost),
    ("drawn", explore._Fingerprints, "of", tears_do_not_matter),
    ("drawn", explore._Fingerprints, "of", durable_writes_do_not_matter),
    ("complete", states.StateSpace, "volatile", nothing_in_flight_survives),
]

MUTANTS = [
    ("sets", sets, "first_covering_flush_ns", flush_counts_what_was_in_flight),
    ("sets", sets, "first_covering_flush_ns", flush_durable_at_its_submission),
    ("sets", sets, "first_covering_flush_ns", only_the_next_flush_counts),
    ("exposure", exposure, "pieces_of", overwrites_in_the_wrong_order),
    ("survival", survival, "pieces_of", overwrites_in_the_wrong_order),
    ("exposure", exposure, "_racing", nothing_races),
    ("exposure", claims.Claims, "released_ns", never_given_up),
    ("exposure", evidence, "_at_home", every_place_counts),
    ("exposure", exposure, "_merge", once_durable_always_durable),
    ("survival", evidence, "durability_sets", durable_although_the_power_was_gone),
]

HUNT = settings(
    max_examples=4000,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    report_multiple_bugs=False,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize(
    ("what", "owner", "name", "mutant"),
    MUTANTS + STATE_MUTANTS,
    ids=[f"{what}-{mutant.__name__}" for what, _, _, mutant in MUTANTS + STATE_MUTANTS],
)
def test_a_wrong_rule_is_refused(monkeypatch, what, owner, name, mutant):
    monkeypatch.setattr(owner, name, mutant)
    properties = states_by_definition if what in ("drawn", "complete") else by_definition
    check = getattr(properties, f"check_{what}")

    # Few logs of any kind have a record in a wrong place, which is all that this rule is about.
    few = {"layouts": (RAW,), "astray_max": 0} if mutant is every_place_counts else {}

    @HUNT
    @given(worlds(cut=what == "survival", **few))
    def hunt(world):
        check(world)

    with pytest.raises(AssertionError):
        hunt()
