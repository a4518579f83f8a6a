# SPDX-License-Identifier: Apache-2.0
"""Where trials and crash states are made: on this host, or on a cluster that an extra opens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from powercut.model.errors import UsageError
from powercut.model.extras import loaded, registered

if TYPE_CHECKING:
    from powercut.campaign.run import Run
    from powercut.explore.request import ExploreRequest, Listener
    from powercut.model.events import RunEvent
    from powercut.store.exploration import ExploreResult
    from powercut.store.trial_dir import TrialDir


class Cluster(Protocol):
    """What an extra registers in the group `powercut.clusters` is called with what `--cluster`
    names, and opens one of these.
    """

    run: Callable[..., Run]
    """Makes a run that is made there: takes what Run takes."""

    def explore(
        self,
        trial: TrialDir,
        wanted: ExploreRequest,
        *,
        on_event: Callable[[RunEvent], None],
        on_progress: Listener,
    ) -> ExploreResult:
        """Explores a recording of this host there."""


def open_cluster(named: str) -> AbstractContextManager[Cluster]:
    """The cluster that `--cluster` names.  Raises UsageError, HostError."""
    for place in registered("powercut.clusters").values():
        opened: AbstractContextManager[Cluster] = loaded(place)(named)
        return opened
    raise UsageError("--cluster: no extra that opens one is installed", hint="leave it out")


@contextmanager
def runs_of(named: str | None) -> Iterator[Callable[..., Run] | None]:
    """What makes runs on that cluster; None without one: this host does."""
    if named is None:
        yield None
        return
    with open_cluster(named) as cluster:
        yield cluster.run
