# SPDX-License-Identifier: Apache-2.0
"""Keeps an exploration, or the search for a witness, within its budget of time, all included.

The budget runs from when the recording is opened: starting engines is a part of it, and so is
the confirmation of losses in guests, for which time is set aside as soon as there are any.  Work
is handed out in pieces that take a small part of the budget, by the pace until then, and none
is begun that would not end in time.  Only the first piece is always done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from powercut.explore.request import Budget
from powercut.machine.patience import processor_seconds
from powercut.model.confidence import STATES_MIN

BATCH_MAX: Final = 64
"""States of one piece of work: a worker takes them in order of time, so the more there are, the
less of the disk changes from one to the next."""

_BATCH_MIN: Final = 16
_PIECES: Final = 4
"""A piece has no more than this part of what each worker has to do, if that is known."""

_PIECE: Final = 0.05
"""A piece takes no more than this share of the budget, if it can be divided at all."""

_SET_ASIDE_MAX: Final = 0.5
"""Confirmations get no more than this share of the budget."""

_CONFIRMATION_S: Final = 10.0
"""Where the recording does not say how long a guest takes."""


def confirmation_s(timings_s: Mapping[str, float]) -> float:
    """Seconds that recovery in a guest will take, by what the recording's own guest took."""
    return (timings_s.get("boot", 0.0) + timings_s.get("recover", 0.0)) or _CONFIRMATION_S


class Clock:
    """Decides how much more is to be done; `now` is in seconds."""

    def __init__(
        self,
        budget: Budget,
        first_share: Budget,
        jobs: int,
        *,
        begun: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._now = now
        self._jobs = jobs
        self._budget = budget.seconds
        self._first_share = first_share.seconds
        self._least = STATES_MIN if budget.states is not None else 1
        each = BATCH_MAX if first_share.states is None else first_share.states // (_PIECES * jobs)
        self._batch = min(BATCH_MAX, max(_BATCH_MIN, each))
        self.begun = self.working = now() if begun is None else begun
        self._processor_s = 0.0
        self.processor_s = 0.0
        """Seconds of processor time, engines included, from `work` to the last `pause`."""

    def work(self) -> None:
        """The engines have started."""
        self.working = self._now()
        self._processor_s = processor_seconds()

    def pause(self) -> None:
        """The engines are still there, and have nothing to do."""
        self.processor_s = processor_seconds() - self._processor_s

    @property
    def worked(self) -> float:
        """Seconds since the engines had started."""
        return self._now() - self.working

    @property
    def taken(self) -> float:
        """Seconds since the beginning."""
        return self._now() - self.begun

    def batch(self, checked: int, set_aside: float) -> int:
        """How many states the next piece of work is to have; 0 if there is no time for any.

        `checked` states took the time until now; `set_aside` seconds are for confirmations.
        """
        if self._budget is None or self._first_share is None:
            return self._batch
        left = self._left(self._first_share, set_aside)
        if not checked:
            return 1
        each = self.worked * self._jobs / checked
        if checked < self._least:
            left = max(left, each)
        if left <= 0 or each > left:
            return 0
        piece = min(left, _PIECE * self._budget)
        return max(1, min(self._batch, int(piece / each) if each > 0 else self._batch))

    def has_time(self, states: int, checked: int, set_aside: float) -> bool:
        """Whether so many more states can be checked by the end."""
        if self._budget is None:
            return True
        each = self.worked * self._jobs / checked if checked else 0.0
        return self._left(self._budget, set_aside) > each * states

    def _left(self, share: float, set_aside: float) -> float:
        assert self._budget is not None
        return share - min(set_aside, _SET_ASIDE_MAX * self._budget) - self.taken
