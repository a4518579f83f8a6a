# SPDX-License-Identifier: Apache-2.0
"""The port to a guest's channel: commands in, claims out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from powercut.model.history import History
from powercut.model.latency import LatencyHistogram
from powercut.model.observation import Extent


@dataclass(frozen=True)
class CommandResult:
    """What a command in the guest left behind.

    `status` is its exit status; `error` names the call that failed, with its errno,
    if the guest said so.
    """

    status: int
    error: str
    facts: dict[str, str]
    extents: tuple[Extent, ...]
    texts: tuple[str, ...]
    latency: LatencyHistogram | None


class Channel(Protocol):
    """One connection to one guest.  It is a context manager."""

    def wait_hello(self, *, timeout_s: float) -> dict[str, str]:
        """The guest's agent is there; returns what it says of itself."""

    def run(self, *argv: str, timeout_s: float) -> CommandResult:
        """Runs a command of the agent's and waits for its end."""

    def start(self, *argv: str) -> None:
        """Starts a command that runs until the cut."""

    def wait_ready(self, *, timeout_s: float) -> None:
        """The workload that was started has opened its log."""

    def wait_acks(self, lsn: int, *, timeout_s: float) -> bool:
        """True once a record of at least `lsn` was acknowledged; False if not in time."""

    def drain(self, *, timeout_s: float) -> History:
        """After the cut: reads what is still in the socket to its end; an unfinished last
        message is dropped.  Everything that was received counts."""
