# SPDX-License-Identifier: Apache-2.0
"""The errors that the disk under test is told to make."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, StrictFloat, StrictStr, model_validator

from powercut.scenario.quantity import Duration
from powercut.scenario.settings_base import Count, Positive, Settings

ERRORS_MAX = 16
_SECTORS_MAX = 2**31


class RequestChoice(enum.Enum):
    """Which requests an error is for; `write` is every write, with FUA or without."""

    WRITE = "write"
    FUA = "fua"
    DISCARD = "discard"
    FLUSH = "flush"
    READ = "read"


class ErrorChoice(enum.Enum):
    """What a request is told: that it failed, or nothing at all until the power goes."""

    EIO = "EIO"
    HANG = "hang"


class BytesAfterError(enum.Enum):
    """Whether the bytes of a write that was told to have failed are on the medium."""

    LOST = "lost"
    KEPT = "kept"


class DiskError(Settings):
    """An error that the disk makes once the workload has begun: when its store is ready, and until
    the power goes.  A request meets the first one in the list that is for it and due."""

    on: RequestChoice
    """Which requests fail."""

    nth: Positive | None = None
    """From this one of them on; the first, unless `at` or `rate` is given."""

    at: Duration | None = None
    """From so long after the workload began."""

    rate: Annotated[StrictFloat, Field(gt=0, le=1)] | None = None
    """Each of them with this probability, drawn from the trial's seed."""

    disk: Annotated[StrictStr, Field(max_length=64)] | None = None
    """Only those of this one of several disks; the first is `disk.name`."""

    sectors: tuple[Count, Positive] | None = None
    """Only those that touch these: number of the first sector of 512 bytes, and how many."""

    error: ErrorChoice = ErrorChoice.EIO
    """`EIO`, an error of the disk, or `hang`: no answer until the power goes."""

    times: Positive | Literal["sticky"] = 1
    """How many fail; `sticky`: all from then on."""

    then: BytesAfterError = BytesAfterError.LOST
    """Whether what a failed write carried is on the medium all the same."""

    @model_validator(mode="after")
    def _is_possible(self) -> Self:
        if sum(value is not None for value in (self.nth, self.at, self.rate)) > 1:
            raise ValueError("give one of nth, at, rate")
        if self.sectors is not None:
            if self.disk is not None:
                raise ValueError("sectors count from the first disk on: give one, sectors or disk")
            if self.on is RequestChoice.FLUSH:
                raise ValueError("a flush has no sectors")
            if sum(self.sectors) > _SECTORS_MAX:
                raise ValueError("sectors: beyond 1 TiB")
        if self.then is BytesAfterError.KEPT:
            if self.on in (RequestChoice.FLUSH, RequestChoice.READ):
                raise ValueError(f"then: kept is for writes; a {self.on.value} carries no bytes")
            if self.error is ErrorChoice.HANG:
                raise ValueError("then: kept is for writes that fail; one that hangs is in flight")
        return self

    def told(self, disks: Mapping[str, tuple[int, int]]) -> str:
        """As the capture disk is told (harness/capture/injected.h); `disks` are the first sector of
        each by name and how many it has, where there are several."""
        sectors = self.sectors if self.disk is None else disks[self.disk]
        return ":".join((*self._words(), *(map(str, sectors) if sectors else ())))

    def _words(self) -> Iterator[str]:
        yield self.on.value
        if self.rate is not None:
            yield f"rate:{max(1, round(self.rate * 1e6))}"
        elif self.at is not None:
            yield f"at:{self.at}"
        else:
            yield f"nth:{self.nth or 1}"
        yield self.error.value
        yield "0" if self.times == "sticky" else str(self.times)
        yield self.then.value
