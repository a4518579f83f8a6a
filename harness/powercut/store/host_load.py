# SPDX-License-Identifier: Apache-2.0
"""What else the host had to do while something ran on it.

A verdict does not depend on it; costs do, and deadlines may be missed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Self

from pydantic import Field, ValidationError

from powercut.store.record import Record

BUSY_STOLEN: Final = 0.05
"""A host is busy if its own hypervisor gave this share of its processors' time to others."""

BUSY_OTHERS: Final = 0.25
"""Or if programs that powercut did not start took this share."""

LOAD: Final = "load"
"""Key of a session in environment.json."""


class HostLoad(Record):
    """The load of a host during one run, powercut's own apart."""

    seconds: float = Field(ge=0)
    """How long the run took."""

    processors: int = Field(ge=1)
    """Processors of the host."""

    average_before: float = Field(ge=0)
    """The host's load average over the minute before the run."""

    stolen: float = Field(ge=0, le=1)
    """Share of the processors' time that a hypervisor below the host gave to others."""

    others: float = Field(ge=0, le=1)
    """Share of the processors' time that programs took which powercut did not start."""

    @property
    def busy(self) -> bool:
        """Whether figures of time suffered."""
        return self.stolen >= BUSY_STOLEN or self.others >= BUSY_OTHERS

    @classmethod
    def over(cls, loads: Iterable[Self]) -> Self | None:
        """Several runs as one; None if there are none.  Shares are weighted by time."""
        known = list(loads)
        if not known:
            return None
        seconds = sum(load.seconds for load in known)
        weights = [load.seconds / seconds if seconds else 1 / len(known) for load in known]

        def mean(shares: Iterable[float]) -> float:
            weighted = (share * weight for share, weight in zip(shares, weights, strict=True))
            return round(min(sum(weighted), 1.0), 4)

        return cls(
            seconds=round(seconds, 3),
            processors=max(load.processors for load in known),
            average_before=max(load.average_before for load in known),
            stolen=mean(load.stolen for load in known),
            others=mean(load.others for load in known),
        )


def load_of_sessions(sessions: Iterable[Mapping[str, Any]]) -> HostLoad | None:
    """The load over the sessions of a run, as environment.json has them; None if unknown."""
    known = []
    for session in sessions:
        try:
            known.append(HostLoad.model_validate(session[LOAD]))
        except (KeyError, ValidationError):
            continue
    return HostLoad.over(known)
