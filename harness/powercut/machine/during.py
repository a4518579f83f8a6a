# SPDX-License-Identifier: Apache-2.0
"""The port to machines to which something can happen while their guest works (`machine.during`)."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from powercut.model.machine import Move, Restart


@runtime_checkable
class MovesGuest(Protocol):
    """A machine whose guest can go on in another hypervisor, on the same disk."""

    def move(self, how: Move, *, timeout_s: float) -> int:
        """Returns once it runs there and the hypervisor before is gone.

        The channel goes along: the other hypervisor connects to it.  Returns an instant
        (CLOCK_MONOTONIC, ns) at which the guest stood still in the one before.  Raises HostError or
        DeadlineExceeded; then the machine may be on or off.
        """


@runtime_checkable
class RestartsGuest(Protocol):
    """A machine whose guest can be started anew, from the disk that it has written so far."""

    def restart(self, how: Restart, *, timeout_s: float) -> int:
        """Returns once it boots; it has not said hello yet.  Whoever has heard it says so
        (`came_up`).

        Nothing that it did not say before is heard: it connects to the channel anew.  The caches
        of the disk stay as they are, but for what the hypervisor itself does to them.  Returns an
        instant (CLOCK_MONOTONIC, ns) at which the guest stood still.  Raises HostError or
        DeadlineExceeded; then the machine may be on or off.
        """

    def came_up(self, *, timeout_s: float) -> None:
        """It was heard again after a restart: if it resets itself from now on, the machine ends,
        as one does that is started."""
