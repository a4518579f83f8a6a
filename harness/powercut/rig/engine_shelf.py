# SPDX-License-Identifier: Apache-2.0
"""Engines that outlive a trial: the next one on the same base image need not boot another.

Booting User-Mode Linux takes as long as recovering some dozens of states.  Trials of a run
mostly begin with the same disk, so an engine is lent to one after the other, each with its own
recovery plan.  An engine in which anything went wrong is not lent again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from powercut.recover.port import RecoveryPlan
from powercut.recover.uml.engine import UmlEngine

_START_S: Final = 180.0

_IDLE_MAX: Final = 4
"""Engines that wait to be lent again; the one used longest ago goes first."""

Base = tuple[int, int, int, int]
"""The same for two names of one file, which never changes: device, inode, bytes, time."""


class EngineShelf:
    """Lends User-Mode Linux engines, to one borrower each.  A context manager: leaving ends all.

    Several threads may borrow at the same time.
    """

    def __init__(self, idle_max: int = _IDLE_MAX) -> None:
        self._idle: list[tuple[Base, UmlEngine]] = []
        self._idle_max = idle_max
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the engines that are not lent."""
        with self._lock:
            idle, self._idle = self._idle, []
        with ExitStack() as stack:
            for _, engine in idle:
                stack.callback(engine.close)

    @contextmanager
    def lend(self, base: Path, plan: RecoveryPlan) -> Iterator[UmlEngine]:
        """An engine that is up and recovers states of `base` by `plan`.

        Raises HostError if this host cannot run one.
        """
        key = _identity(base)
        engine = self._take(key)
        if engine is None:
            engine = UmlEngine(base, plan)
        try:
            engine.follow(plan, timeout_s=_START_S)
            if engine.pid is None:  # it is new, or its kernel died
                engine.start(timeout_s=_START_S)
            yield engine
        except BaseException:
            engine.close()
            raise
        self._put(key, engine)

    def _take(self, key: Base) -> UmlEngine | None:
        with self._lock:
            for at, (base, engine) in enumerate(self._idle):
                if base == key:
                    del self._idle[at]
                    return engine
        return None

    def _put(self, key: Base, engine: UmlEngine) -> None:
        with self._lock:
            self._idle.append((key, engine))
            count = max(0, len(self._idle) - self._idle_max)
            surplus = [each for _, each in self._idle[:count]]
            del self._idle[:count]
        for each in surplus:
            each.close()


def _identity(base: Path) -> Base:
    found = base.stat()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
