# SPDX-License-Identifier: Apache-2.0
"""The port to a guest's channel: commands in, claims out."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from powercut.model.errors import HostError
from powercut.model.failure import GuestFault
from powercut.model.history import History, LatencyHistogram
from powercut.model.observation import Extent
from powercut.model.operations import Pressed


class GuestFailed(HostError):
    """The guest, or what runs in it, stopped before it was asked to; the message says how."""


class EndedEarly(GuestFailed):
    """The workload ended in order before it was ready."""


@dataclass(frozen=True)
class GuestError:
    """A call that failed in the guest: what it is about, its errno, and its words."""

    fault: GuestFault
    error: int
    text: str


@dataclass(frozen=True)
class CommandResult:
    """What a command in the guest left behind.

    `status` is its exit status; `error` names the call that failed, with its errno,
    if the guest said so; `errors` are all such calls, in the order in which they failed.
    """

    status: int
    error: str
    facts: dict[str, str]
    extents: tuple[Extent, ...]
    texts: tuple[str, ...]
    latency: LatencyHistogram | None
    errors: tuple[GuestError, ...] = ()
    listed: bytes = b""
    """The files that a check has read, as powercut.recover.port has them."""


class Commands(Protocol):
    """What recovery asks of a channel: who is there, and commands one after the other."""

    def wait_hello(self, *, timeout_s: float) -> dict[str, str]:
        """As in `Channel`."""

    def run(self, *argv: str, timeout_s: float) -> CommandResult:
        """As in `Channel`."""

    @property
    def acked(self) -> int:
        """Highest LSN acknowledged so far; 0 if none."""


class Acks(Protocol):
    """What a workload says while it works: by wire (`Channel`) or by lines
    (powercut.channel.line_channel).

    Every wait raises GuestFailed at once, without waiting any longer, when the connection is
    lost, and HostError when the workload has failed.
    """

    @property
    def acked(self) -> int:
        """How far it has come: by wire the highest LSN acknowledged, by lines the acks so far."""

    def wait_ready(self, *, timeout_s: float) -> None:
        """The workload has begun.  Raises DeadlineExceeded, or EndedEarly if it never will."""

    def wait_acks(self, count: int, *, timeout_s: float) -> bool:
        """True once `acked` is `count` at least; False if that did not happen in time, or cannot
        happen since the workload has ended in order."""

    def drain(self, *, timeout_s: float) -> object:
        """After the cut: receives what is still on its way, to the end.  Whatever was not
        finished was not said; all else counts.  Raises DeadlineExceeded if the other end is still
        open, and says what was not kept."""


class Channel(Commands, Acks, Protocol):
    """One connection to one guest.  It is a context manager.

    Every wait raises DeadlineExceeded when its time is over (`wait_acks` returns
    False instead), and GuestFailed at once, without waiting any longer, when the
    connection is lost or what was started has failed.
    """

    def wait_hello(self, *, timeout_s: float) -> dict[str, str]:
        """The guest's agent is there; returns what it says of itself."""

    def run(self, *argv: str, timeout_s: float) -> CommandResult:
        """Runs a command of the agent's and waits for its end."""

    def start(self, *argv: str) -> None:
        """Starts a command that runs until the cut."""

    def keep_time(self) -> None:
        """From now on the guest's clock is told from ours; to be called once, after its hello."""

    def wait_done(self, *, timeout_s: float) -> CommandResult:
        """Waits until what was started ends on its own."""

    @property
    def latency(self) -> LatencyHistogram | None:
        """The last commit latencies that the workload reported, also after a cut."""

    def drain(self, *, timeout_s: float) -> History:
        """After the cut: reads what is still in the socket to its end; an unfinished last
        message is dropped.  Everything that was received counts."""


@runtime_checkable
class FollowsGuest(Protocol):
    """A channel that continues when its guest moves to another hypervisor, or is restarted."""

    def expect_handover(self, *, restarts: bool = False) -> None:
        """The guest is about to move to another hypervisor, which connects as the first one did; or
        it `restarts`, and is heard on a new connection."""

    def hand_over(self, stopped_ns: int, *, timeout_s: float) -> int:
        """The guest has moved, and stood still at `stopped_ns` (CLOCK_MONOTONIC) in the hypervisor
        before, which is gone; or it was restarted then.  Returns once it is heard again: how many
        acks had come before."""


@runtime_checkable
class RunsVerbs(Protocol):
    """A channel whose commands are the verbs of a program."""

    def set_up(self, *argv: str, timeout_s: float) -> CommandResult:
        """As `Channel.run`; the last word is a folder, which is made before."""

    def press(self, seed: int, *, timeout_s: float) -> None:
        """From now on what is dirty is written back early, and a neighbour commits, at instants
        that `seed` decides.

        Raises HostError for a kernel that is not powercut's to press.
        """

    def pressed(self, *, timeout_s: float) -> Pressed:
        """What came of that so far, also while a verb is at work; nothing if it does not say."""

    def start_unsynced(self, *argv: str) -> None:
        """As `Channel.start`; while it runs, calls that make data durable do nothing."""

    def cut_nodes(
        self, names: Collection[str], dark: AbstractContextManager[None], *, timeout_s: float
    ) -> None:
        """Nodes of a cluster that is at work lose their power, and begin again; while it is `dark`
        their disks refuse every request.  Raises HostError."""
