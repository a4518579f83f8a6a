# SPDX-License-Identifier: Apache-2.0
"""What the host's clock read when the guest's read *g*: an interval that holds the answer.

Write f(g) for that reading.  f rises, and two kinds of events pin it down:

1. A guest read its clock as *g* before something happened on the host at *u*: f(g) <= u.
   A message stamped at g and received at u; an attempt stamped at g, and a write that carries
   its record, which the disk took at u.
2. A guest read its clock as *g* after something had happened on the host at *l*: f(g) >= l.
   A ping sent at l that the guest answered at g.

No latency is assumed, neither small nor symmetric: each event is a bound by causality alone.
What carries a bound from one reading to another is the rate of the clocks:

3. Over the recording, the guest's clock runs at some constant rate against the host's, which
   may be any within `RATE_MAX` of 1 (an emulated TSC that was calibrated wrongly is off by
   thousands of ppm) ...
4. ... from which the momentary rate differs by `WANDER` at most: what NTP changes while a
   run lasts.

The rate is not assumed but found: every line with all points of kind 1 above it and all
of kind 2 below it, give or take what rule 4 allows, is a possible one, and f may follow
each of them.  So f(g) is at most the least of all u, each carried to g at the rate that
makes most of it, and at least the greatest of all l, carried likewise.

If no line fits, or the two bounds cross anywhere, rules 3 and 4 do not hold: a clock was
stepped, or stood still (a paused guest).  Then nothing is concluded: ClocksDisagree.  What is
smaller than the interval is wide contradicts nothing, and is allowed for:

- A step.  Wherever it is, either all that was seen before a reading lies on the same side of it,
  or all that was seen afterwards.  So each bound is the weaker one of what both of these say alone;
  but no weaker than one and a half of the usual width allows, as a larger step contradicts
  something.
- A drift.  In each eighth of the recording the least bound from above is known well; where these do
  not lie on a line the momentary rate may differ from the constant one by as much as they do.
- Not a clock that is off by up to 1 ms and right again within 50 ms: the two sides of it agree,
  and a bound within may be wrong by as much.

5. A clock that reads g may be anywhere from g to g plus its resolution.  That is not known
   either, but no larger than the smallest difference between two readings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

RATE_MAX: Final = 0.2
"""The rates differ by a fifth at most: a calibration against a timer that a busy host serves."""

WANDER: Final = 1e-4
"""adjtimex(2) can change the rate by 500 ppm in all; NTP goes there in steps of a few ppm."""

DRIFT_MAX: Final = 1e-3
"""A larger drift contradicts the readings; in a short recording latencies look like one."""

_SEGMENTS: Final = 8
_MARGIN: Final = 1.5  # of a drift that is seen only between segments

_SLACK: Final = 1.5  # of the usual width: what a step hides from both sides

_HALVINGS: Final = 60
_GOLDEN: Final = (5**0.5 - 1) / 2


class ClocksDisagree(ValueError):
    """The readings contradict each other; the message says how."""


@dataclass(frozen=True)
class Points:
    """Readings of the guest's clock, and the instant on the host's that bounds each; ns."""

    guest_ns: I64
    host_ns: I64

    @classmethod
    def join(cls, *parts: Points) -> Points:
        """All of them."""
        return cls(
            np.concatenate([part.guest_ns for part in parts]),
            np.concatenate([part.host_ns for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.guest_ns)


@dataclass(frozen=True)
class ClockBounds:
    """f, as an interval at each reading.

    `rate_low`, `rate_high`: by how much the host's clock may gain on the guest's, as a part
    of 1.  `resolution_ns`: of the guest's clock, as far as it is known.  `slack_ns`: by how much a
    step that contradicts nothing may have moved a bound.
    """

    rate_low: float
    rate_high: float
    resolution_ns: int
    _origin: tuple[int, int]
    _upper: _Envelope
    _lower: _Envelope
    slack_ns: float

    def latest(self, guest_ns: I64) -> I64:
        """The last instant, on the host's clock, at which the guest's can have read so."""
        up_to_ns = guest_ns + self.resolution_ns
        ahead = np.ceil(
            self._upper.at((up_to_ns - self._origin[0]).astype(np.float64), self.slack_ns)
        )
        return np.asarray(up_to_ns + self._offset + ahead.astype(np.int64), dtype=np.int64)

    def earliest(self, guest_ns: I64) -> I64:
        """The first such instant."""
        ahead = np.floor(
            -self._lower.at((guest_ns - self._origin[0]).astype(np.float64), self.slack_ns)
        )
        return np.asarray(guest_ns + self._offset + ahead.astype(np.int64), dtype=np.int64)

    @property
    def _offset(self) -> int:
        return self._origin[1] - self._origin[0]


def bound_clock(before: Points, after: Points) -> ClockBounds:
    """The bounds that the points of kind 1 (`before`) and of kind 2 (`after`) give.

    Raises ClocksDisagree if the points contradict the rules above, and ValueError if one
    kind has no points: then there is no bound on that side.
    """
    if not len(before) or not len(after):
        raise ValueError("a clock is bounded by points of both kinds")
    origin = int(after.guest_ns[0]), int(after.host_ns[0])
    resolution_ns = _resolution(before, after)
    at_last = Points(after.guest_ns + resolution_ns, after.host_ns)
    above, below = _relative(before, origin), _relative(at_last, origin)
    rates = _rates(above, below)
    upper, lower = _envelopes(above, below, *rates)
    worst = int((below[1] - upper.least(below[0])).max())
    if worst > 0:
        raise ClocksDisagree(
            f"one of the clocks was stepped or stood still: they contradict each other by "
            f"{worst / 1e6:.3f} ms"
        )
    slack_ns = _slack(upper, lower, np.concatenate([above[0], below[0]]))
    if drift := _drift(above, sum(rates) / 2):
        rates = rates[0] - drift, rates[1] + drift
        upper, lower = _envelopes(above, below, *rates)
    return ClockBounds(*rates, resolution_ns, origin, upper, lower, slack_ns)


def _envelopes(
    above: tuple[F64, F64], below: tuple[F64, F64], rate_low: float, rate_high: float
) -> tuple[_Envelope, _Envelope]:
    """The bounds from above, and those from below with their signs changed."""
    upper = _Envelope.under(*above, rate_low, rate_high)
    return upper, _Envelope.under(below[0], -below[1], -rate_high, -rate_low)


def _relative(points: Points, origin: tuple[int, int]) -> tuple[F64, F64]:
    """Readings, and by how much the host's clock was ahead there; both from the origin."""
    x = points.guest_ns - origin[0]
    return x.astype(np.float64), (points.host_ns - origin[1] - x).astype(np.float64)


def _rates(above: tuple[F64, F64], below: tuple[F64, F64]) -> tuple[float, float]:
    ends = np.concatenate([above[0], below[0]])
    slack = WANDER * float(ends.max() - ends.min())

    def room(rate: float) -> float:
        """By how much a line of this slope can move between the points; concave in `rate`."""
        top = float((above[1] - rate * above[0]).min())
        return top - float((below[1] - rate * below[0]).max()) + slack

    best = _highest(room, -RATE_MAX, RATE_MAX)
    if room(best) < 0:
        raise ClocksDisagree(
            "one of the clocks was stepped or stood still: no constant rate between them fits"
        )
    return _edge(room, best, -RATE_MAX) - WANDER, _edge(room, best, RATE_MAX) + WANDER


def _drift(above: tuple[F64, F64], rate: float) -> float:
    """By how much the momentary rate was seen to differ from `rate`, beyond rule 4."""
    x, y = above
    edges = np.linspace(x.min(), x.max(), _SEGMENTS + 1)
    segment = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, _SEGMENTS - 1)
    ahead = y - rate * x
    lowest = [
        members[np.argmin(ahead[members])]
        for number in range(_SEGMENTS)
        if len(members := np.flatnonzero(segment == number))
    ]
    # Neighbours may be next to each other, where latencies alone make any rate of them.
    pairs = zip(lowest, lowest[2:], strict=False)
    rates = [(ahead[b] - ahead[a]) / (x[b] - x[a]) for a, b in pairs]
    worst = _MARGIN * max(map(abs, rates), default=0.0)
    return float(min(worst, DRIFT_MAX)) if worst > WANDER else 0.0


def _slack(upper: _Envelope, lower: _Envelope, x: F64) -> float:
    """By how much a step may move a bound without a contradiction, with a margin."""
    return _SLACK * max(float(np.median(upper.least(x) + lower.least(x))), 0.0)


def _highest(concave: Callable[[float], float], low: float, high: float) -> float:
    """Where a concave function is highest: golden-section search."""
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = concave(left), concave(right)
    for _ in range(_HALVINGS):
        if at_left >= at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = concave(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = concave(right)
    return left if at_left >= at_right else right


def _edge(room: Callable[[float], float], inside: float, outside: float) -> float:
    """Between a rate that is possible and one that may not be: the first that is not."""
    if room(outside) >= 0:
        return outside
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if room(middle) >= 0:
            inside = middle
        else:
            outside = middle
    return outside


def _resolution(before: Points, after: Points) -> int:
    readings = np.unique(np.concatenate([before.guest_ns, after.guest_ns]))
    if len(readings) < 2:
        raise ClocksDisagree("the guest's clock stood still")
    return int(np.diff(readings).min())


@dataclass(frozen=True)
class _Envelope:
    """The least of many bounds from above, each carried to any reading at the worst rate."""

    x: F64
    high: float
    low: float
    from_left: F64  # the least, carried to reading 0, of all bounds up to each reading
    from_right: F64  # of all from each reading on

    @classmethod
    def under(cls, x: F64, y: F64, rate_low: float, rate_high: float) -> _Envelope:
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
        left = np.minimum.accumulate(y - rate_high * x)
        right = np.minimum.accumulate((y - rate_low * x)[::-1])[::-1]
        return cls(x, rate_high, rate_low, np.append(np.inf, left), np.append(right, np.inf))

    def at(self, x: F64, slack_ns: float) -> F64:
        """The bound at readings `x`, wherever a step was: at most `slack_ns` weaker for it."""
        left, right = self._sides(x)
        return np.asarray(np.minimum(np.maximum(left, right), np.minimum(left, right) + slack_ns))

    def least(self, x: F64) -> F64:
        """The bound at readings `x` if there was no step."""
        return np.asarray(np.minimum(*self._sides(x)))

    def _sides(self, x: F64) -> tuple[F64, F64]:
        left = self.from_left[np.searchsorted(self.x, x, side="right")] + self.high * x
        right = self.from_right[np.searchsorted(self.x, x, side="left")] + self.low * x
        return np.asarray(left), np.asarray(right)
