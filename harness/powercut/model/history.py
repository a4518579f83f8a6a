# SPDX-License-Identifier: Apache-2.0
"""What the workload claimed: attempts and acks, in order."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from powercut.model.units import NEVER, Instant


@dataclass(frozen=True)
class History:
    """What the workload claimed, as received outside the guest.

    An attempt says that every record up to `lsn` may be on its way to the disk, an
    ack that every record up to `lsn` was promised durable.  The instant of a claim
    is the instant at which the controller received it: later than it was made, so
    that no record is required a moment too early.  `guest_ns` is the guest's own
    clock and serves latencies only.
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

    @property
    def acked(self) -> int:
        """Highest acknowledged LSN; 0 if none."""
        return int(self.ack_lsn.max(initial=0))

    @property
    def attempted(self) -> int:
        """Highest attempted LSN; 0 if none."""
        return int(self.attempt_lsn.max(initial=0))
