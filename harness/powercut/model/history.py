# SPDX-License-Identifier: Apache-2.0
"""What the workload claimed: attempts and acks, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from powercut.model.units import NEVER, Instant

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


RECORDS_MAX: Final = 1 << 24
"""Records that a run may attempt.  Hours at thousands a second; evidence that claims more is
refused before anything of that length is laid out in memory."""


@dataclass(frozen=True)
class RoundTrips:
    """Pings that were answered, one element each: what ties the guest's clock to the host's.

    `sent_ns` and `received_ns`: the host's CLOCK_MONOTONIC before the ping was sent and after
    its answer was received; `guest_ns`: the guest's, in between.
    """

    sent_ns: npt.NDArray[np.int64]
    guest_ns: npt.NDArray[np.int64]
    received_ns: npt.NDArray[np.int64]

    @classmethod
    def none(cls) -> RoundTrips:
        """No ping was answered, or none was sent."""
        import numpy as np  # noqa: PLC0415

        return cls(*(np.zeros(0, np.int64) for _ in range(3)))

    def __len__(self) -> int:
        return len(self.sent_ns)


@dataclass(frozen=True)
class Handover:
    """Where one hypervisor ended in a history, and another went on with its guest; or where a guest
    was `restarted`.

    `attempts`, `acks` and `round_trips` count what had been received by then.  At `stopped_ns`, on
    the host's CLOCK_MONOTONIC, the guest stood still already in the first hypervisor.  Its clock
    stood still from then until it ran in the second.  That of a guest which was restarted began
    anew, and nothing that it sends was made before.
    """

    attempts: int
    acks: int
    round_trips: int
    stopped_ns: int
    restarted: bool = False


@dataclass(frozen=True)
class History:
    """What the workload claimed, as received outside the guest.

    An attempt says that every record up to `lsn` may be on its way to the disk, an
    ack that every record up to `lsn` was promised durable.  `attempt_ns` and `ack_ns` are
    the instants at which the controller received them, later than they were made;
    `guest_ns` is when they were made, on the guest's own clock.  crash/dating.py dates acks
    by both.  In a history that stands in the disk's own log (`marked`) the instants are
    those of the log, and nothing is left to find out.
    """

    attempt_lsn: npt.NDArray[np.int64]
    attempt_ns: npt.NDArray[np.int64]
    ack_lsn: npt.NDArray[np.int64]
    ack_ns: npt.NDArray[np.int64]
    attempt_guest_ns: npt.NDArray[np.int64]
    ack_guest_ns: npt.NDArray[np.int64]
    cut_ns: Instant = NEVER
    error: str = ""
    facts: dict[str, str] = field(default_factory=dict)
    round_trips: RoundTrips = field(default_factory=RoundTrips.none)
    marked: bool = False
    handovers: tuple[Handover, ...] = ()

    @classmethod
    def nothing(cls) -> History:
        """Nothing was claimed, or not in this way."""
        import numpy as np  # noqa: PLC0415

        none = np.zeros(0, np.int64)
        return cls(none, none, none, none, none, none)

    @property
    def acked(self) -> int:
        return int(self.ack_lsn.max(initial=0))

    @property
    def attempted(self) -> int:
        return int(self.attempt_lsn.max(initial=0))


# Commit latency as the workload measures it.


@dataclass(frozen=True)
class LatencyHistogram:
    """Commit latency in the log-linear buckets of workloads/common/wire.h."""

    count: int
    sum_ns: int
    max_ns: int
    buckets: tuple[int, ...]

    def percentile_ns(self, percent: float) -> int:
        """Upper edge of the bucket in which `percent` of the commits are reached; 0 if empty."""
        if not self.count:
            return 0
        wanted = self.count * percent / 100
        seen = 0
        for bucket, commits in enumerate(self.buckets):
            seen += commits
            if commits and seen >= wanted:
                return min(upper_edge_ns(bucket), self.max_ns)
        return self.max_ns


def upper_edge_ns(bucket: int) -> int:
    """The largest latency that lands in `bucket`, in nanoseconds."""
    if bucket < 8:
        return bucket
    exponent = bucket // 8 + 2
    return (1 << exponent) + ((bucket % 8 + 1) << (exponent - 3)) - 1
