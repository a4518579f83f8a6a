# SPDX-License-Identifier: Apache-2.0
"""Where runs are made: here, or on the hosts of a fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from powercut.model.events import RunEvent

if TYPE_CHECKING:
    from powercut.campaign.run import Run


@contextmanager
def runs_of(
    hosts_file: Path | None, on_event: Callable[[RunEvent], None]
) -> Iterator[Callable[..., Run] | None]:
    """What makes runs on the hosts of a hosts file; None without one: this host does."""
    if hosts_file is None:
        yield None
        return
    from powercut.fleet.start import runs_on

    with runs_on(hosts_file, on_event) as run_of:
        yield run_of
