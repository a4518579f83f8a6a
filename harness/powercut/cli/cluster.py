# SPDX-License-Identifier: Apache-2.0
"""Where runs are made: here, or by the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from powercut.model.events import RunEvent

if TYPE_CHECKING:
    from powercut.campaign.run import Run


@contextmanager
def runs_of(
    cluster: str | None, on_event: Callable[[RunEvent], None]
) -> Iterator[Callable[..., Run] | None]:
    """What makes runs on a cluster; None without one: this host does."""
    if cluster is None:
        yield None
        return
    from powercut.cluster.start import runs_on

    with runs_on(cluster, on_event) as run_of:
        yield run_of
