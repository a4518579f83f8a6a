# SPDX-License-Identifier: Apache-2.0
"""Where runs are made: here, or by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from powercut.campaign.run import Run


@contextmanager
def runs_of(cluster: str | None) -> Iterator[Callable[..., Run] | None]:
    """What makes runs on a cluster; None without one: this host does."""
    if cluster is None:
        yield None
        return
    from powercut.cluster.connect import cluster_of
    from powercut.cluster.run import ClusterRun

    with cluster_of(cluster) as opened:
        yield partial(ClusterRun, opened)
