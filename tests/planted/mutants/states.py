# SPDX-License-Identifier: Apache-2.0
"""Planted in the index that says which write shows where in a crash state."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import AGAIN, STATES

_E = "harness/powercut/explore"
states = planter("states", STATES)
again = planter("again", AGAIN)

MUTANTS: tuple[Mutant, ...] = (
    *states(
        "harness/powercut/crash/layers.py",
        (
            "durable-too-early",
            At("Layers._ranks", "self._durable_ns.searchsorted(instant)"),
            "self._durable_ns.searchsorted(instant, side='right')",
            "a write is durable at the instant at which it becomes so",
        ),
        (
            "last-durable-shows",
            At("Layers._level", "np.maximum.accumulate(node * self._stride + write)"),
            "node * self._stride + write",
            "of two durable writes the one that became durable last shows, not the younger one",
        ),
        (
            "long-writes-lost",
            At("Layers._filed", "writes[whole]"),
            "writes[:0]",
            "the middle of a write over many places is nowhere",
        ),
        (
            "hidden-in-part",
            At("Layers.hidden_ns", "(some >= youngest) & (self._end[some] >= end)"),
            "some >= youngest",
            "a race is over once a durable write hides a part of it",
        ),
    ),
    *states(
        "harness/powercut/crash/states.py",
        (
            "outstanding-by-block",
            At("StateSpace._outstanding", "latest_ns[:-(-issued // size)] >= instant"),
            "latest_ns[:-(-issued // size)] > instant",
            "the last write that becomes durable of its neighbours is so at that instant",
        ),
    ),
    *states(
        "harness/powercut/crash/explore.py",
        (
            "order-forgotten",
            At("_Fingerprints.of", "self._number('move', move.write, move.after)"),
            "0",
            "a reordered state counts as the one in order, and is never looked at",
        ),
        (
            "hidden-by-a-part",
            At("_visible", "at > 0 and highs[at - 1] >= end"),
            "at > 0",
            "a write that a later one hides in part counts as if it were not there",
        ),
    ),
    *states(
        "harness/powercut/recover/uml/origin.py",
        (
            "torn-forgotten",
            At(
                "ShownWrites._differing",
                "[self.layers.by_durability[low:high], np.setxor1d(self._whole, whole, assume_unique=True), self._special, special]",
            ),
            "[self.layers.by_durability[low:high], np.setxor1d(self._whole, whole, assume_unique=True), special]",
            "what was torn in the last state stays",
        ),
        (
            "durable-stays",
            At(
                "ShownWrites._differing",
                "[self.layers.by_durability[low:high], np.setxor1d(self._whole, whole, assume_unique=True), self._special, special]",
            ),
            "[np.setxor1d(self._whole, whole, assume_unique=True), self._special, special]",
            "what is durable in one state of two stays as it was",
        ),
        (
            "moved-in-its-turn",
            At(
                "ShownWrites._mixed_places",
                "sorted(writes, key=lambda one: (point.get(one, one), one in point, one))",
            ),
            "sorted(writes)",
            "a write that was moved comes in the order of submission",
        ),
        (
            "torn-first-part-alone",
            At("ShownWrites._places_of", "bisect_left(bounds, part.end)"),
            "low + 1",
            "of what is left of a torn write only the first place is there",
        ),
    ),
    *states(
        "harness/powercut/recover/uml/origin.py",
        (
            "pages-at-a-time-skipped",
            At("Origin._renew", "words[covered[differ]] = whole[differ]"),
            "words[covered[differ][:-1]] = whole[differ][:-1]",
            "of pages that are built at a time the last one stays as it was",
        ),
    ),
    *states(
        "harness/powercut/explore/state_images.py",
        (
            "digest-of-first-pages",
            At("AnswerCache.advance", "range(0, len(changed), Origin.AT_A_TIME)"),
            "range(0, min(len(changed), 1), Origin.AT_A_TIME)",
            "two disks that differ in many pages count as one",
        ),
    ),
    *again(
        f"{_E}/raw.py",
        (
            "drawn-singly-counts-twice",
            At("RawExploration._run_singly", "self._undrawn.meet(state)"),
            "None",
            "a state of a bare log that was found counts twice when it is looked at again",
        ),
        (
            "drawn-in-bulk-counts-twice",
            At("RawExploration._judge", "self._undrawn.meet(state)"),
            "None",
            "the same where states are read many at a time",
        ),
        (
            "found-is-not-read-again",
            At("RawExploration.run", "self._undrawn.rest()"),
            "()",
            "what was found in a bare log, and is not drawn once more, is not looked at",
        ),
    ),
    *again(
        f"{_E}/explorer.py",
        (
            "drawn-counts-twice",
            At("ExplorerRun._judge_all", "self.undrawn.meet(state)"),
            "None",
            "a state that was found counts twice when it is recovered again",
        ),
        (
            "found-is-not-recovered-again",
            At("ExplorerRun._judge_the_rest", "self.undrawn.rest()"),
            "()",
            "what was found, and is not drawn once more, is not recovered again",
        ),
    ),
)
