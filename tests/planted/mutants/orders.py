# SPDX-License-Identifier: Apache-2.0
"""Planted in the order of crash states and in the odds that the verdict states."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import ORDER, VIEW_OF

_P = "harness/powercut"
order = planter("order", ORDER)
view = planter("view-of-recording", VIEW_OF)

MUTANTS: tuple[Mutant, ...] = (
    *order(
        f"{_P}/crash/representatives.py",
        (
            "even-spread",
            At("permuted", "draw.permutation(instants)"),
            "[instants[n] for first in range(16 * bool(draw)) for n in range(first, len(instants), 16)]",
            "acks come in an order that is even over the run",
        ),
        (
            "one-order-for-all",
            At("permuted", "f'{seed}/{purpose}'.encode()"),
            "f'{seed}'.encode()",
            "orders for several purposes are the same",
        ),
        (
            "one-seed",
            At("permuted", "f'{seed}/{purpose}'.encode()"),
            "purpose.encode()",
            "every seed draws the same acks",
        ),
    ),
    *order(
        f"{_P}/crash/order.py",
        (
            "sorts-count-as-drawn",
            At("Order._after_ack", "self._at_acks.add(instant)"),
            "self._at_acks.add(instant), setattr(self, '_drawn_acks', self._drawn_acks + 1)",
            "acks that were chosen for a reason count as drawn",
        ),
        (
            "no-sorts",
            At("Order._streams", "chain(self._after_acks(self._sorts), draws)"),
            "chain((), draws)",
            "operations that are unlike the others are left to chance",
        ),
        (
            "no-more-acks",
            At("Order._turns", "next(mostly_acks if long_enough else equal)"),
            "next(equal)",
            "acks have half of the states however rare a fault may be",
        ),
        (
            "few-acks-by-chance",
            At("Order._first", "self._acks.tolist()"),
            "self._acks[::2].tolist()",
            "of few acks each second one comes first",
        ),
    ),
    *order(
        f"{_P}/crash/order.py",
        (
            "common-sorts-first",
            At("_first_of_each", "(chance[head], count)"),
            "(chance[head], -count)",
            "rare sorts of operations come last",
        ),
        (
            "coarse-sorts-only",
            At(
                "one_of_each_sort",
                "_together(coarse, _flushes(space, acks), _volatile(space, acks, kinds))",
            ),
            "coarse",
            "an operation that flushes less often looks like the others",
        ),
        (
            "writes-uncounted",
            At("one_of_each_sort", "_together(fine, counted)"),
            "fine",
            "an operation that forgets one of two files that are alike looks like the others",
        ),
    ),
    *order(
        f"{_P}/model/confidence.py",
        (
            "reasons-have-a-chance",
            At("AcksLookedAt.chance", "self.all - self.drawn"),
            "self.all - self.looked_at",
            "what was chosen for a reason raises the probability",
        ),
        (
            "certain-too-soon",
            At("AcksLookedAt.chance", "self.all - self.looked_at < faulty"),
            "self.all - self.looked_at <= faulty",
            "a fault that just fits into what was not looked at counts as met",
        ),
        (
            "rounded-up-operations",
            At("AcksLookedAt.chance", "self.all // one_in"),
            "-(-self.all // one_in)",
            "a run counts on one more faulty operation than it needs to have",
        ),
    ),
    *order(
        f"{_P}/crash/representatives.py",
        (
            "one-state-a-group",
            At("Representatives.labelled", "not some"),
            "some",
            "a group has no third state although there is one",
        ),
    ),
    *order(
        f"{_P}/crash/kinds.py",
        (
            "fresh-names-told-apart",
            At("_roles_of_names", "alike[as_] >= _MANY"),
            "False",
            "each name of mkstemp is a kind of its own, and groups grow with their square",
        ),
        (
            "names-by-suffix-alone",
            At("_roles_of_names", "tell(one, calls_of[one])"),
            "tell(one, '')",
            "a file that is renamed and one that is removed look alike",
        ),
    ),
    *order(
        f"{_P}/crash/representatives.py",
        (
            "rounds-of-all-stages",
            At("_taken", "(pairs := pairs + _pairs_at_most(ahead[-1])) <= _PAIRS"),
            "True",
            "choosing the first state takes minutes where kinds are many",
        ),
    ),
    *order(
        f"{_P}/crash/order.py",
        (
            "never-durable-in-a-folder",
            At("_outstanding", "-1"),
            "0",
            "what an operation of a folder left outstanding does not tell it from others",
        ),
    ),
    *view(
        f"{_P}/store/view.py",
        (
            "a-request-of-no-log",
            At("RecordingView.submitted", "np.zeros(0, dtype=np.int64)"),
            "np.zeros(1, dtype=np.int64)",
            "a recording whose disk log cannot be read is shown with a request",
        ),
        (
            "all-that-was-submitted",
            At("RecordingView._within", "(instants >= self.start_ns) & (instants <= self.end_ns)"),
            "instants >= self.start_ns",
            "requests after the cut are shown as if they had been before it",
        ),
        (
            "names-on-the-curve",
            At("RecordingView.curve", "self.operations is not None"),
            "False",
            "the number of an operation is shown as how many there are",
        ),
    ),
)
