# SPDX-License-Identifier: Apache-2.0
"""The engine for programs: mounts in User-Mode Linux, checks on the host, samples in the guest."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

import numpy as np

from powercut.closing import Closing
from powercut.model.errors import HostError
from powercut.model.observation import Observation
from powercut.model.timeline import Timeline
from powercut.recover.native.check import CheckSandbox, unavailable
from powercut.recover.native.inside import PECULIAR
from powercut.recover.plan import GoOn, RecoveryPlan
from powercut.recover.port import ImageWrite, RecordsRecoveries, RecoveryEngine
from powercut.recover.uml.origin import Origin

SAMPLE: Final = 32
"""One in so many trees is checked in the guest as well, and the first `SAMPLE_FIRST`."""

SAMPLE_FIRST: Final = 2


class Guest(RecoveryEngine, RecordsRecoveries, Protocol):
    """An engine that can hand over what it has mounted: `UmlEngine`."""

    @property
    def origin(self) -> Origin:
        """What stands on its disk."""

    @property
    def memory_fd(self) -> int:
        """The memory in which `tree` leaves an archive, behind its first page."""

    def sample(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> Observation:
        """As `recover`, with a reader that was started before the state was there."""

    def tree(
        self, writes: Sequence[ImageWrite], *, timeout_s: float
    ) -> tuple[Observation, memoryview | None]:
        """As `recover`, with the files as an archive instead of what a reader says of them."""

    def close(self) -> None:
        """Ends it."""


class NativeEngine(Closing):
    """A `RecoveryEngine` and `SecondLook` for plans on the host's files.

    `checks` is the command line of the verb that stays (docs/adding-a-program.md).  Where the
    host has no sandbox all is done in the guest.
    """

    def __init__(self, guest: Guest, plan: RecoveryPlan, checks: tuple[str, ...]) -> None:
        assert plan.host is not None
        self._guest = guest
        self._sandbox = CheckSandbox(plan.host, plan.reader, checks)
        # A program goes on in the guest, whose file system is a real one; nodes are nowhere else.
        self._on_host = not (unavailable() or plan.find(GoOn) or plan.host.nodes)
        self._known: dict[bytes, Observation] = {}
        self._peculiar: set[int] = {0}
        """What a copy cannot have of trees on which host and guest said the same."""
        self._tree_peculiar = 0
        self._last = np.empty(0, dtype=np.uint8)
        self._last_digest = hashlib.sha256().digest()
        self._fresh = False
        self.same_files = 0
        self.on_host = 0
        self.was_short = False
        self.doubts: tuple[str, ...] = ()

    @property
    def base(self) -> Path:
        return self._guest.base

    @property
    def origin(self) -> Origin:
        return self._guest.origin

    def close(self) -> None:
        self.let_go()
        self._guest.close()

    def let_go(self) -> None:
        """Ends the sandbox, and leaves the guest to whoever has lent it."""
        self._sandbox.close()

    @property
    def boots(self) -> int:
        return self._guest.boots

    def start(self, *, timeout_s: float) -> None:
        """Boots the guest.  Raises HostError."""
        self._guest.start(timeout_s=timeout_s)

    def recover(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> Observation:
        """Recovers the base image with `writes` laid over it.  Raises HostError."""
        self.was_short = False
        if self._on_host:
            observation, archive = self._guest.tree(writes, timeout_s=timeout_s)
            if not observation.recovered:
                return observation
            checked = None if archive is None else self._checked(archive, timeout_s)
            if checked is not None and not self._is_sample():
                self.was_short = True
                return checked
            return self._sampled(writes, checked, timeout_s)
        return self._guest.recover(writes, timeout_s=timeout_s)

    def _sampled(
        self, writes: Sequence[ImageWrite], checked: Observation | None, timeout_s: float
    ) -> Observation:
        """What the check says in the guest; the host is believed no more if it said otherwise."""
        if checked is not None and self.on_host > SAMPLE_FIRST:
            sampled = self._guest.sample(writes, timeout_s=timeout_s)
            if _said(sampled) == _said(checked):
                self._peculiar.add(self._tree_peculiar)
                return sampled
        # The first are started for their state alone, as is whatever says something else.
        sampled = self._guest.recover(writes, timeout_s=timeout_s)
        if checked is None:
            return sampled
        if _said(sampled) == _said(checked):
            self._peculiar.add(self._tree_peculiar)
        elif self._tree_peculiar in self._peculiar:
            self._distrust(sampled, checked)
        return sampled

    def record(
        self, writes: Sequence[ImageWrite], *, timeout_s: float
    ) -> tuple[Observation, bytes | Timeline | None]:
        """As `recover`, all of it in the guest and on record."""
        self.was_short = False
        return self._guest.record(writes, timeout_s=timeout_s)

    def look_again(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> Observation:
        self.was_short = False
        return self._guest.recover(writes, timeout_s=timeout_s)

    def _is_sample(self) -> bool:
        """Whether the tree that was checked last is to be checked in the guest as well."""
        if self._tree_peculiar not in self._peculiar:
            return True
        return self._fresh and (self.on_host <= SAMPLE_FIRST or self.on_host % SAMPLE == 0)

    def _checked(self, archive: memoryview, timeout_s: float) -> Observation | None:
        """What the check on the host says of a tree; None if it did not look at everything."""
        tree = self._digest(archive)
        (self._tree_peculiar,) = PECULIAR.unpack_from(archive)
        self._fresh = tree not in self._known
        if not self._fresh:
            self.same_files += 1
            return self._known[tree]
        try:
            checked = self._sandbox.check(self._guest.memory_fd, len(archive), timeout_s=timeout_s)
        except HostError:
            return None
        if checked.status != 0:
            return None
        self.on_host += 1
        self._known[tree] = Observation((), lines=checked.lines)
        return self._known[tree]

    def _digest(self, archive: memoryview) -> bytes:
        """The digest of a tree.  Most trees are that of the state before: comparing is faster."""
        data = np.frombuffer(archive, dtype=np.uint8)
        if not np.array_equal(data, self._last):
            self._last = data.copy()
            self._last_digest = hashlib.sha256(archive).digest()
        return self._last_digest

    def _distrust(self, guest: Observation, host: Observation) -> None:
        self._on_host = False
        self._known.clear()
        self._fresh = False
        if self.on_host > 1:
            self.doubts = (
                f"{self.on_host} states were checked on the host, and then a check in the guest "
                f"said something else: {_difference(guest, host)}",
            )


def _said(observation: Observation) -> tuple[bool, bool, frozenset[bytes]]:
    # The order of lines means nothing.
    lines = frozenset(observation.lines.splitlines())
    return observation.recovered, observation.complete, lines


def _difference(guest: Observation, host: Observation) -> str:
    only = [line for line in guest.lines.splitlines() if line not in host.lines.splitlines()]
    text = only[0].decode(errors="replace")[:100] if only else "fewer lines"
    return replace(guest, lines=b"").failure[:100] or text
