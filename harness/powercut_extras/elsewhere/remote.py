# SPDX-License-Identifier: Apache-2.0
"""What a machine elsewhere needs of ssh: commands there, their bytes, and how they ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from powercut.model.errors import HostError


class Unreachable(HostError):
    """Nobody answers there, or not yet as an ssh server does."""


class NotLetIn(HostError):
    """There is an ssh server, and it does not accept this user."""


class WrongKey(HostError):
    """The server is not known, or has another key than the one that is known of it."""


def last_line(printed: str) -> str:
    """What a command said at its end, for a person."""
    lines = printed.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"


@dataclass(frozen=True)
class Done:
    """What a command left: its exit status, its standard output, the end of its standard error."""

    status: int
    output: bytes
    printed: str

    @property
    def text(self) -> str:
        """Its standard output, without the line break at its end."""
        return self.output.decode(errors="replace").strip()


class RemoteCommand(Protocol):
    """A command that runs there."""

    def read(self) -> bytes:
        """What comes next of its standard output; empty at the end, or once the link is lost."""

    def write(self, data: bytes) -> None:
        """Sends it to its standard input.  Raises OSError once the link is lost."""

    @property
    def status(self) -> int | None:
        """Its exit status; None if it has not said one (yet)."""

    @property
    def ended_in_order(self) -> bool:
        """Whether the other side has said that it has ended.  A lost link says nothing."""

    @property
    def printed(self) -> str:
        """The end of its standard error."""

    def close(self) -> None:
        """Hears no more of it; idempotent.  What has arrived can still be read."""


class Remote(Protocol):
    """A way to one machine: connected or not, and again after its next boot."""

    def connect(self, *, timeout_s: float) -> None:
        """Raises Unreachable, NotLetIn or WrongKey."""

    def run(self, script: str, *, stdin: Iterable[bytes] = (), timeout_s: float) -> Done:
        """Runs a script of sh's there.  Raises Unreachable for a lost link, DeadlineExceeded."""

    def begin(self, script: str, *, timeout_s: float) -> RemoteCommand:
        """Starts one and returns at once.  Raises Unreachable."""

    def another(self) -> Remote:
        """One to the same machine, not connected yet."""

    def close(self) -> None:
        """Hangs up; idempotent."""
