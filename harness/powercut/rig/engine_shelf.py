# SPDX-License-Identifier: Apache-2.0
"""Engines that outlive a trial: the next one on the same base image need not boot another.

Booting User-Mode Linux takes as long as recovering some dozens of states.  Whatever recovers a
disk of a run asks here: the reading after the cut, the exploration, the map of the files, and the
control that begins with the same disk.  So an engine is lent to one after the other, each with its
own recovery plan.  An engine that works with another (`EngineRow.over`) has one that was lent.  An
engine in which anything went wrong is not lent again.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, Protocol, cast

from powercut.closing import Closing
from powercut.model.errors import UsageError
from powercut.model.versions import HOST
from powercut.recover.order import EngineOrder
from powercut.recover.plan import PlanDisk, PlanLayers
from powercut.recover.port import FollowsPlans, RecoveryEngine
from powercut.rig.engines import ENGINES, open_engine, open_over

_START_S: Final = 180.0

_IDLE_MAX: Final = 4
"""Engines that wait to be lent again; the one used longest ago goes first."""

Root = tuple[str, str, str, tuple[str, ...]]
"""A root on the host's files: its folder there, those of the program and of tools, and what is
visible besides; a kernel keeps the one that it was told first."""

Key = tuple[str, str, Root | None, tuple[PlanDisk, ...], PlanLayers | None, int, int, int, int]
"""The engine's name, its kernel's, the root, disks and layers that it was told first and keeps, and
of its base image what is the same for two names of one file, which never changes: device, inode,
bytes, time."""


class _Lendable(RecoveryEngine, FollowsPlans, Protocol):
    """An engine that can be lent again."""


class EngineShelf(Closing):
    """Lends engines, to one borrower each.  A context manager: leaving ends all.

    Several threads may borrow at the same time.
    """

    def __init__(self, idle_max: int = _IDLE_MAX) -> None:
        self._idle: list[tuple[Key, _Lendable]] = []
        self._idle_max = idle_max
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        with ExitStack() as stack:
            for _, engine in idle:
                stack.callback(engine.close)

    @contextmanager
    def lend(self, name: str, order: EngineOrder) -> Iterator[RecoveryEngine]:
        """An engine called `name` that is up and does what `order` says.

        Raises HostError if this host cannot run one.
        """
        beneath = ENGINES[name].over
        if not beneath:
            with self._lend(name, order) as engine:
                yield engine
            return
        with self._lend(beneath, order) as lent, open_over(name, lent, order) as engine:
            yield engine

    @contextmanager
    def _lend(self, name: str, order: EngineOrder) -> Iterator[_Lendable]:
        key = _key(name, order)
        engine = self._take(key) or _made(name, order)
        try:
            engine.follow(order.plan, timeout_s=_START_S)
            if not engine.is_up():  # it is new, or its kernel died
                engine.start(timeout_s=_START_S)
            yield engine
        except BaseException:
            engine.close()
            raise
        self._put(key, engine)

    def _take(self, key: Key) -> _Lendable | None:
        with self._lock:
            for at, (base, engine) in enumerate(self._idle):
                if base == key:
                    del self._idle[at]
                    return engine
        return None

    def _put(self, key: Key, engine: _Lendable) -> None:
        with self._lock:
            self._idle.append((key, engine))
            count = max(0, len(self._idle) - self._idle_max)
            surplus = [each for _, each in self._idle[:count]]
            del self._idle[:count]
        for each in surplus:
            each.close()


def _made(name: str, order: EngineOrder) -> _Lendable:
    engine = open_engine(name, order)
    if not isinstance(engine, FollowsPlans):
        raise UsageError(f"engine {name} cannot be lent from one recording to the next")
    return cast(_Lendable, engine)


def _key(name: str, order: EngineOrder) -> Key:
    host = order.plan.host
    root = None if host is None else (host.base, host.program, host.tools, host.visible)
    kernel = HOST if order.kernel is None else order.kernel.name
    return (name, kernel, root, order.plan.disks, order.plan.layers, *_identity(order.base))


def _identity(base: Path) -> tuple[int, int, int, int]:
    status = base.stat()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
