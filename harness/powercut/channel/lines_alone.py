# SPDX-License-Identifier: Apache-2.0
"""What a channel without a wire has of `channel.port.Channel`: its programs speak in lines."""

from __future__ import annotations

from powercut.model.errors import HostError
from powercut.model.latency import LatencyHistogram


class LinesAlone:
    """Nothing is acknowledged by wire, and nothing is made of another clock."""

    def keep_time(self) -> None:
        """Lines are dated by their source."""

    def wait_ready(self, *, timeout_s: float) -> None:
        del timeout_s
        raise _no_wire()

    def wait_acks(self, count: int, *, timeout_s: float) -> bool:
        del count, timeout_s
        raise _no_wire()

    @property
    def acked(self) -> int:
        return 0

    @property
    def latency(self) -> LatencyHistogram | None:
        return None


def _no_wire() -> HostError:
    return HostError("this machine runs programs that speak in lines, and no others")
