# SPDX-License-Identifier: Apache-2.0
"""How sure a number of cuts makes us: exact bounds on the chance that a cut loses a record.

The model is Bernoulli's: each cut loses an acknowledged record with the same unknown
probability p, and cuts know nothing of each other.  `losses` of `trials` cuts did.

1. `upper_bound` and `lower_bound` are the one-sided limits of Clopper and Pearson ("The
   use of confidence or fiducial limits illustrated in the case of the binomial",
   Biometrika 26, 1934, 404-413).  They are exact in that p lies beyond the limit with at
   most the stated error, whatever p is; they are never too narrow.
2. Without a loss the upper limit is 1 - (1 - confidence)^(1/trials).  At 95 % that is a
   little under 3/trials, the rule of three (Hanley and Lippman-Hand, "If nothing goes
   wrong, is everything all right?", JAMA 249, 1983, 1743-1745).
3. When to stop: the sequential test of Wald ("Sequential tests of statistical hypotheses",
   Annals of Mathematical Statistics 16, 1945, 117-186) between "p is 0" and "p is at least
   `at_most`".  Where the first says that no cut ever loses anything, the
   test takes a simple form: the first loss refutes it, and after `trials_needed` cuts
   without one the second is refuted with an error of at most 1 - confidence.  So the
   number of cuts is fixed beforehand, and only a loss ends it earlier.

What no formula mends: the bound is about cuts drawn as these were.  It says nothing of
another workload, another disk, or instants that no cut could hit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from typing import Final

CONFIDENCE: Final = 0.95
"""The confidence of bounds in reports."""

_HALVINGS: Final = 200
_CONVERGED: Final = 1e-15
_TINY: Final = 1e-300
_TERMS_MAX: Final = 100_000


def upper_bound(losses: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """The p that is only exceeded with a chance of at most 1 - `confidence`.

    One-sided limit of Clopper and Pearson: the p at which `losses` or fewer of `trials`
    have exactly that chance; 1 if all trials lost.  Errs upwards.  Raises ValueError for
    numbers that cannot be.
    """
    _check(losses, trials, confidence)
    if losses == trials:
        return 1.0
    error = 1 - confidence
    if losses == 0:
        return -math.expm1(math.log(error) / trials)
    # P(X <= k) = I_{1-p}(n-k, k+1)  (DLMF 8.17.5), falling in p.
    return _cross(lambda p: regularised_beta(1 - p, trials - losses, losses + 1) <= error)[1]


def lower_bound(losses: int, trials: int, confidence: float = CONFIDENCE) -> float:
    """The p that is only undercut with a chance of at most 1 - `confidence`.

    One-sided limit of Clopper and Pearson; 0 if no trial lost.  Errs downwards.  Raises
    ValueError for numbers that cannot be.
    """
    _check(losses, trials, confidence)
    if losses == 0:
        return 0.0
    error = 1 - confidence
    # P(X >= k) = I_p(k, n-k+1), rising in p.
    return _cross(lambda p: regularised_beta(p, losses, trials - losses + 1) >= error)[0]


def interval(losses: int, trials: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The two-sided interval of Clopper and Pearson: half of the error on either side."""
    one_sided = (1 + confidence) / 2
    return lower_bound(losses, trials, one_sided), upper_bound(losses, trials, one_sided)


def trials_needed(at_most: float, confidence: float = CONFIDENCE) -> int:
    """How many trials without a loss put the upper bound at or below `at_most`.

    The least such number.  Raises ValueError unless both are above 0 and below 1.
    """
    if not 0 < at_most < 1:
        raise ValueError(f"a probability to stay below lies between 0 and 1, not at {at_most}")
    _check(0, 1, confidence)
    trials = max(1, math.ceil(math.log(1 - confidence) / math.log1p(-at_most)))
    # Rounding may put the quotient of the logarithms on the wrong side of an integer.
    while trials > 1 and upper_bound(0, trials - 1, confidence) <= at_most:
        trials -= 1
    while upper_bound(0, trials, confidence) > at_most:
        trials += 1
    return trials


def percent(chance: float, *, rounding: str = ROUND_CEILING) -> str:
    """`chance` with two digits; a bound is rounded to the side on which it stays true."""
    exact = Decimal(f"{chance * 100:.9g}")  # without the noise of binary fractions
    rounded = exact.normalize(Context(prec=2, rounding=rounding))
    return f"{rounded:f} %"


def regularised_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b) for 0 <= x <= 1 and a, b > 0.

    By its continued fraction (DLMF 8.17.22), evaluated from the front after Lentz.  Good
    to about 1e-9 for a + b up to a million, and to 1e-13 for small ones: what is lost is
    lost in the difference of large logarithms.
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    # The fraction converges fast only on this side of its mean.
    if x > (a + 1) / (a + b + 2):
        return 1 - regularised_beta(1 - x, b, a)
    front = a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b)
    return min(1.0, math.exp(front) / (a * _fraction(x, a, b)))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


def _fraction(x: float, a: float, b: float) -> float:
    """1 + d1/(1 + d2/(1 + ...)) with the d of DLMF 8.17.23."""
    value = ratio_up = 1.0
    ratio_down = 0.0
    for term in range(1, _TERMS_MAX):
        m = term // 2
        if term % 2:
            d = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            d = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        ratio_down = 1 / _not_zero(1 + d * ratio_down)
        ratio_up = _not_zero(1 + d / ratio_up)
        change = ratio_up * ratio_down
        value *= change
        if abs(change - 1) < _CONVERGED:
            return value
    raise ArithmeticError(f"the fraction for I_{x}({a}, {b}) does not converge")


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _cross(beyond: Callable[[float], bool]) -> tuple[float, float]:
    """Two neighbours in [0, 1] between which `beyond` turns from false to true."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if beyond(middle):
            high = middle
        else:
            low = middle
    return low, high


def _check(losses: int, trials: int, confidence: float) -> None:
    if trials < 1 or not 0 <= losses <= trials:
        raise ValueError(f"{losses} losses in {trials} trials cannot be")
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")


# Numbers that are too large to be written down, by their binary logarithms.


def log2_sum(logs: Sequence[float]) -> float:
    """The binary logarithm of a sum, of the binary logarithms of its parts; 0 for none."""
    if not logs:
        return 0.0
    most = max(logs)
    return most + math.log2(sum(2.0 ** (log - most) for log in logs))


# With what chance the crash states that were looked at would have met a fault, had there been one.
#
# A fault leaves some operations not durable when they are acknowledged.  It is *met* if the state
# of nothing but what was durable just after the ack of one of them was looked at.  Of `all` acks
# `drawn` were drawn at random, without repetition and without regard to what the program did there;
# others were chosen for a reason, and `looked_at` counts them all.
#
# Of `faulty` acks, wherever they are and whatever their period, all are missed by the draw with the
# chance of the hypergeometric distribution, C(all - drawn, faulty) / C(all, faulty).  What was
# chosen for a reason adds nothing, since a fault may keep away from it, until fewer than `faulty`
# acks are left that were not looked at: then one was met for certain.

ONE_IN: Final = (10, 100, 1000)
"""Of how many operations one is faulty: the faults that are told of."""


@dataclass(frozen=True)
class AcksLookedAt:
    """Of `all` acks `looked_at` had a state looked at; `drawn` of them were drawn at random."""

    all: int
    looked_at: int
    drawn: int

    def chance(self, one_in: int) -> float:
        """The least chance with which a fault in one operation of `one_in` would have been met; 0
        if the run acknowledged fewer than that.
        """
        faulty = self.all // one_in
        if not faulty:
            return 0.0
        if self.all - self.looked_at < faulty:
            return 1.0
        placements = math.comb(self.all, faulty)
        return (placements - math.comb(self.all - self.drawn, faulty)) / placements


# How much has to have been seen before finding no loss means anything.

OPERATIONS_MIN: Final = 10
"""Acknowledged operations below which a run proves nothing."""

LONGER: Final = 5
"""How many times as long as it was given a run may take to come to so many, as on a busy host."""

STATES_MIN: Final = 32
"""Recovered states below which nothing is SAFE of a workload whose bytes are not recognised, unless
there are no more."""


def too_few_operations(acknowledged: int) -> str:
    """Why so many acknowledged operations are no evidence; empty if they are enough."""
    if acknowledged >= OPERATIONS_MIN:
        return ""
    few = f"{acknowledged} operations were acknowledged, and fewer than {OPERATIONS_MIN}"
    return f"{few} prove nothing"
