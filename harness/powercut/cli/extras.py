# SPDX-License-Identifier: Apache-2.0
"""What verbs of the core take from extras: options, and logs of requests that other tools wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Protocol, cast

from powercut.model.errors import HostError, UsageError
from powercut.model.extras import loaded, registered

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

    def tell(self, recording: Path, *, json_file: Path | None) -> int:
        """What was acknowledged too early."""

    def explore(
        self,
        recording: Path,
        *,
        model: str,
        states: int | None,
        seconds: float | None,
        engine: str,
        kernel: str,
        json_file: Path | None,
    ) -> int:
        """Checks its crash states."""


def foreign_logs() -> ForeignLogs:
    """Raises UsageError where no extra has them, HostError for one that is broken."""
    for place in registered("powercut.importers").values():
        return cast(ForeignLogs, loaded(place))
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
