# SPDX-License-Identifier: Apache-2.0
"""What verbs of the core take from extras: options, clusters, and logs that other tools wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol, cast

from powercut.model.errors import HostError, UsageError
from powercut.model.extras import provided

if TYPE_CHECKING:
    from powercut.campaign.run import Run
    from powercut.explore.request import ExploreRequest, Listener
    from powercut.model.events import RunEvent
    from powercut.store.exploration import ExploreResult
    from powercut.store.trial_dir import TrialDir


Option = Callable[[Any], Any]
"""What click.option() returns."""


class ForeignLogs(Protocol):
    """Of the extra that registers `powercut.importers`.

    Each verb returns an exit status; what it says goes to `json_file` as well.
    """

    import_options: Sequence[Option]
    export_options: Sequence[Option]

    read: Callable[..., int]
    """Called with source, output and json_file, and with what the options of `import` say: makes a
    recording of a log, and tells of it."""

    write: Callable[..., dict[str, Any]]
    """Called with recording, output and say, and with what the options of `export` say: writes a
    recording as such a log, and returns what it holds."""

    tell: Callable[..., int]
    """Called with recording and json_file: tells what is known of it."""

    verify: Callable[..., int]
    """The same, and judges it again."""

    explore: Callable[..., int]
    """Called with recording, an `ExploreRequest`, on_event and json_file: checks crash states."""


def foreign_logs() -> ForeignLogs:
    """Raises UsageError where no extra has them, HostError for one that is broken."""
    if (found := provided("powercut.importers")) is not None:
        return cast(ForeignLogs, found)
    raise UsageError(
        "powercut's extra `logs`, which reads and writes logs of other tools, is not installed"
    )


def with_options(port: Callable[[], object], of: str) -> Option:
    """Adds the options of an extra's that its `port` calls `of`, if it can be had."""
    try:
        options: Sequence[Option] = getattr(port(), of)
    except (UsageError, HostError):
        options = ()
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


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
    if (opens := provided("powercut.clusters")) is not None:
        return cast(AbstractContextManager[Cluster], opens(named))
    raise UsageError("--cluster: no extra that opens one is installed", hint="leave it out")


@contextmanager
def runs_of(named: str | None) -> Iterator[Callable[..., Run] | None]:
    """What makes runs on that cluster; None without one: this host does."""
    if named is None:
        yield None
        return
    with open_cluster(named) as cluster:
        yield cluster.run
