# SPDX-License-Identifier: Apache-2.0
"""Commit latency as the workload measures it."""

from __future__ import annotations

from dataclasses import dataclass


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
