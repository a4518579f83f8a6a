# SPDX-License-Identifier: Apache-2.0
"""Two clocks whose relation is known, seen through latencies that are not.

Whatever the rate, the drift and the latencies: the bounds hold the truth at every reading.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from powercut.crash.clock import WANDER, ClocksDisagree, Points, bound_clock

MS = 1_000_000
SECOND = 1000 * MS


class Clocks:
    """A host's clock as a function of the guest's: a rate that wanders, from an offset."""

    def __init__(self, rng, *, rate: float, span_ns: int, resolution_ns: int, start_ns: int):
        self.rng, self.resolution_ns, self.start_ns = rng, resolution_ns, start_ns
        self.knots = np.linspace(0, span_ns, 12)
        rates = rate + rng.uniform(-WANDER / 2, WANDER / 2, len(self.knots) - 1)
        rates += rate - rates.mean()  # rule 4 speaks of the mean over the recording
        self.gain = np.concatenate([[0], np.cumsum(rates * np.diff(self.knots))])
        self.offset_ns = int(rng.integers(-(10**15), 10**15))

    def host(self, true_ns):
        """The host's clock when the guest's is, to every digit, `true_ns` after its start."""
        ahead = np.interp(true_ns, self.knots, self.gain)
        return (true_ns + ahead).astype(np.int64) + self.start_ns + self.offset_ns

    def reads(self, true_ns):
        """What a guest reads then."""
        reading = true_ns.astype(np.int64) + self.start_ns
        return reading // self.resolution_ns * self.resolution_ns

    def instants(self, count: int):
        return np.sort(self.rng.uniform(0, self.knots[-1], count))

    def before(self, count: int) -> Points:
        at = self.instants(count)
        return Points(self.reads(at), self.host(at) + latencies(self.rng, count))

    def after(self, count: int) -> Points:
        at = self.instants(count)
        return Points(self.reads(at), self.host(at) - latencies(self.rng, count))


def latencies(rng, count: int):
    """From some 50 us on, with a tail of tens of milliseconds."""
    return (50_000 + rng.pareto(0.8, count) * 30_000).clip(0, 200 * MS).astype(np.int64)


@given(
    st.integers(0, 2**32),
    st.sampled_from([0.0, 2e-5, 5e-4, -3e-3, 0.02, -0.1]),
    st.integers(1, 400),
    st.integers(1, 60),
    st.sampled_from([1, 40, 1000, 4 * MS]),
    st.sampled_from([5 * MS, SECOND, 60 * SECOND]),
)
@settings(max_examples=300, deadline=None)
def test_the_truth_lies_between_the_bounds(seed, rate, many, pings, resolution_ns, span_ns):
    rng = np.random.default_rng(seed)
    start_ns = int(rng.integers(10**9, 10**15))
    clocks = Clocks(rng, rate=rate, span_ns=span_ns, resolution_ns=resolution_ns, start_ns=start_ns)
    before, after = clocks.before(many), clocks.after(pings)
    try:
        bounds = bound_clock(before, after)
    except ClocksDisagree:
        # Only a clock that never moved, as far as anybody saw, may be turned down.
        assert len(np.unique(np.concatenate([before.guest_ns, after.guest_ns]))) == 1
        return
    at = clocks.instants(500)
    truth = clocks.host(at)
    assert (bounds.earliest(clocks.reads(at)) <= truth).all()
    assert (truth <= bounds.latest(clocks.reads(at))).all()
    # The readings the bounds were made of are no exception.
    assert (bounds.latest(after.guest_ns) >= after.host_ns).all()
    assert (bounds.earliest(before.guest_ns) <= before.host_ns).all()


@given(st.integers(0, 2**32), st.sampled_from([-1, 1]), st.floats(0.2, 0.8), st.booleans())
@settings(max_examples=100, deadline=None)
def test_a_step_of_either_clock_is_noticed(seed, sign, where, of_guest):
    """A step of 20 ms, with something seen of both clocks on both of its sides."""
    rng = np.random.default_rng(seed)
    clocks = Clocks(rng, rate=0.0, span_ns=2 * SECOND, resolution_ns=1, start_ns=10**12)
    before, after = clocks.before(2000), clocks.after(100)
    step = sign * 20 * MS
    moved = []
    for points in (before, after):
        later = points.guest_ns > 10**12 + int(where * 2 * SECOND)
        guest, host = points.guest_ns.copy(), points.host_ns.copy()
        (guest if of_guest else host)[later] += step
        moved.append(Points(guest, host))
    with pytest.raises(ClocksDisagree, match="stepped or stood still"):
        bound_clock(*moved)


def turned(seed, step_ns, drift, where, sign):
    """Whether the bounds of two clocks hold the truth, of which one steps, or turns its rate, at
    `where` of two seconds.  Raises ClocksDisagree if that is noticed."""
    rng = np.random.default_rng(seed)
    turn = where * 2 * SECOND

    def host(at):
        ahead = drift * np.where(at < turn, at, 2 * turn - at) + step_ns * (at >= turn)
        return (at + sign * ahead).astype(np.int64)

    def seen(count: int, side: int) -> Points:
        at = np.sort(rng.uniform(0, 2 * SECOND, count))
        return Points(at.astype(np.int64), host(at) + side * latencies(rng, count))

    bounds = bound_clock(seen(2000, 1), seen(100, -1))
    # Past the last of all points there is one side alone, and a step there is not to be seen.
    at = np.sort(rng.uniform(0.02 * SECOND, 1.98 * SECOND, 1000))
    readings = at.astype(np.int64)
    early, late = bounds.earliest(readings), bounds.latest(readings)
    return bool((early <= host(at)).all() and (host(at) <= late).all())


@pytest.mark.parametrize("seed", range(6))
def test_a_drift_that_contradicts_nothing_is_allowed_for(seed):
    try:
        assert turned(seed, 0, 2.5e-4, 0.5, 1)
    except ClocksDisagree:
        pytest.fail("these seeds are those at which nothing contradicts")


@given(
    st.integers(0, 2**32),
    st.sampled_from([0, 20_000, 50_000, 100_000, 200_000]),
    st.sampled_from([0.0, 1e-4, 2.5e-4, 3.5e-4, 5e-4, 1e-3, 2e-3]),
    st.floats(0.2, 0.8),
    st.sampled_from([-1, 1]),
)
@settings(max_examples=150, deadline=None)
def test_a_small_step_or_a_drift_is_noticed_or_within_the_bounds(seed, step_ns, drift, where, sign):
    """A step, or a rate that turns, at one instant of two seconds: one of them is 0 or smaller."""
    if step_ns and drift > 1e-4:
        drift = 0.0
    try:
        assert turned(seed, step_ns, drift, where, sign)
    except ClocksDisagree:
        assert step_ns >= 100_000 or drift >= 2.5e-4, "honest clocks were turned down"


def test_the_window_is_what_the_fastest_messages_leave_open():
    """Steady clocks, 1,000 messages and 50 pings a second: tails of latency do not matter."""
    rng = np.random.default_rng(7)
    clocks = Clocks(rng, rate=1e-5, span_ns=5 * SECOND, resolution_ns=1, start_ns=10**12)
    bounds = bound_clock(clocks.before(5000), clocks.after(250))
    at = clocks.instants(1000)
    late = bounds.latest(clocks.reads(at)) - clocks.host(at)
    early = clocks.host(at) - bounds.earliest(clocks.reads(at))
    assert np.median(late) < 60_000  # 50 us is the least latency there is
    assert np.median(early) < 80_000
    assert late.max() < 100_000
    assert early.max() < 350_000  # at the ends, where one side alone tells of a step


def test_a_clock_that_is_off_by_thousands_of_ppm_is_found_out_by_its_points():
    rng = np.random.default_rng(8)
    clocks = Clocks(rng, rate=-0.0042, span_ns=5 * SECOND, resolution_ns=1, start_ns=10**12)
    bounds = bound_clock(clocks.before(5000), clocks.after(250))
    assert bounds.rate_low < -0.0042 < bounds.rate_high
    assert bounds.rate_high - bounds.rate_low < 0.001


def test_a_clock_that_ticks_every_4_ms_costs_what_it_hides():
    rng = np.random.default_rng(9)
    clocks = Clocks(rng, rate=0.0, span_ns=5 * SECOND, resolution_ns=4 * MS, start_ns=10**12)
    bounds = bound_clock(clocks.before(5000), clocks.after(250))
    assert bounds.resolution_ns == 4 * MS
    at = clocks.instants(1000)
    assert (bounds.latest(clocks.reads(at)) - bounds.earliest(clocks.reads(at))).min() > 4 * MS


def test_one_side_alone_bounds_nothing():
    some, none = Points(np.array([1]), np.array([2])), Points(np.zeros(0, int), np.zeros(0, int))
    for pair in ((some, none), (none, some)):
        with pytest.raises(ValueError, match="both kinds"):
            bound_clock(*pair)


def test_a_clock_that_never_moved_says_nothing():
    stuck = Points(np.array([5, 5]), np.array([10, 20]))
    with pytest.raises(ClocksDisagree, match="stood still"):
        bound_clock(stuck, Points(np.array([5]), np.array([1])))
