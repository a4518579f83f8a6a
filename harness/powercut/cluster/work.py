# SPDX-License-Identifier: Apache-2.0
"""What is to be made, cut into tasks for the engine: which hosts may take one, and how large it is.

A cell keeps to the hosts that it has begun on, since each of them owes its controls; a host that
has nothing else to do joins.  A task holds about ten seconds of work, and less towards the end, so
that all hosts end together.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from powercut.cluster.engine import Answer, CallFailed
from powercut.cluster.roster import ClusterHost, FalseClaim, HostLost, Roster

_TASK_S: Final = 10.0
_BATCH_MAX: Final = 128
_AHEAD: Final = 2
"""Tasks for each thread of the hosts: one at work, and one that waits for it."""


_TASK_MAX_S: Final = 5400.0
"""For each item of a task: what takes longer is taken back.  All that a host does has a deadline of
its own, far below."""

_LOOK_S: Final = 0.5

Item = TypeVar("Item")


@dataclass(frozen=True)
class Task(Generic[Item]):
    """Some items of a cell, and the addresses of who may do them."""

    cell: str
    items: tuple[Item, ...]
    addresses: tuple[str, ...]
    begun: float


class _Cell(Generic[Item]):
    def __init__(self, items: Iterable[Item]) -> None:
        self.back: deque[Item] = deque()
        self.rest = iter(items)
        self.hosts: set[str] = set()
        self.under_way = 0
        self.seconds = 0.0
        self.done = 0

    def __bool__(self) -> bool:
        if not self.back:
            self.back.extend(itertools.islice(self.rest, 1))
        return bool(self.back)

    def take(self, count: int) -> list[Item]:
        self.back.extend(itertools.islice(self.rest, max(0, count - len(self.back))))
        return [self.back.popleft() for _ in range(min(count, len(self.back)))]

    def batch(self, threads: int) -> int:
        """How many items make a task."""
        if not self.done:
            return 1
        count = int(_TASK_S / max(self.seconds / self.done, _TASK_S / _BATCH_MAX))
        self.back.extend(itertools.islice(self.rest, max(0, 4 * count * threads - len(self.back))))
        return max(1, min(count, len(self.back) // (_AHEAD * threads)))


class Todo(Generic[Item]):
    """Items by cell; for several threads."""

    def __init__(self, cells: Mapping[str, Iterable[Item]]) -> None:
        self._cells = {name: _Cell(items) for name, items in cells.items()}
        self._changing = threading.RLock()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that could be handed out."""
        with self._changing:
            return not any(self._cells.values())

    def tasks(self, hosts: Sequence[ClusterHost]) -> Iterator[Task[Item]]:
        """What can be handed out now."""
        with self._changing:
            self._assign(hosts)
            for name, cell in self._cells.items():
                mine = [host for host in hosts if host.name in cell.hosts]
                threads = sum(host.threads for host in mine)
                while mine and cell.under_way < _AHEAD * threads and cell:
                    cell.under_way += 1
                    items = tuple(cell.take(cell.batch(threads)))
                    addresses = tuple(host.address for host in mine)
                    yield Task(name, items, addresses, time.monotonic())

    def put_back(self, name: str, items: Sequence[Item]) -> None:
        """A task is no longer under way; what is left of it comes first."""
        with self._changing:
            cell = self._cells[name]
            cell.under_way -= 1
            cell.back.extendleft(reversed(items))

    def took(self, name: str, seconds: float) -> None:
        """What an item took."""
        with self._changing:
            self._cells[name].seconds += seconds
            self._cells[name].done += 1

    def _assign(self, hosts: Sequence[ClusterHost]) -> None:
        """Gives each host that has no work left a cell that has."""
        here = {host.name for host in hosts}
        for cell in self._cells.values():
            cell.hosts &= here
        at_work = {name for cell in self._cells.values() if cell for name in cell.hosts}
        for host in hosts:
            if host.name in at_work:
                continue
            busy = Counter({name: len(cell.hosts) for name, cell in self._cells.items()})
            left = [name for name, cell in self._cells.items() if cell]
            if left:
                self._cells[min(left, key=lambda name: busy[name])].hosts.add(host.name)


class Drive(Generic[Item]):
    """Has the engine do all of a Todo that its hosts can; takes what comes of it."""

    def __init__(
        self,
        roster: Roster,
        call: str,
        order: Callable[[str, Sequence[Item]], str],
        take: Callable[[ClusterHost, Sequence[Item], Answer], Iterator[Item]],
        fail: Callable[[Item, str], None],
    ) -> None:
        """`order` is the text of a call, in the context of a run; `take` tells each item that is
        done, from one of several threads, and raises HostLost or FalseClaim; `fail` is told what
        the engine gave up.
        """
        self._roster = roster
        self._call = call
        self._order = order
        self._take = take
        self._fail = fail

    def run(self, todo: Todo[Item]) -> None:
        """Until nothing is under way, and nothing left or nobody to do it.

        Raises what `take` and `fail` raise, and EngineLost.
        """
        under_way: dict[Future[Answer], Task[Item]] = {}
        taking: set[Future[None]] = set()
        with ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="claims") as pool:
            try:
                while True:
                    self._roster.look()
                    for task in todo.tasks(self._roster.ready):
                        under_way[self._submit(task)] = task
                    idle = not under_way and not taking
                    if idle and (todo.is_empty or not self._roster.present):
                        return
                    waiting: list[Future[Any]] = [*under_way, *taking]
                    if idle:  # a host that is gone may come back
                        waiting += self._roster.news()
                    done, _ = wait(waiting, _LOOK_S, FIRST_COMPLETED)
                    for one in done & taking:
                        one.result()
                    taking -= done
                    for call in [call for call in under_way if call in done]:
                        taking.add(pool.submit(self._taken, todo, under_way.pop(call), call))
                    self._call_back(todo, under_way)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._roster.engine.close()
                raise

    def _submit(self, task: Task[Item]) -> Future[Answer]:
        # Its context is the same on all of them: the digest of what each was told.
        text = self._order(self._roster.context(task.addresses[0]), task.items)
        return self._roster.engine.call(self._call, text, task.addresses)

    def _call_back(self, todo: Todo[Item], under_way: dict[Future[Answer], Task[Item]]) -> None:
        """Takes back what only hosts were to do that are gone, or what takes far too long."""
        here = {host.address for host in self._roster.ready}
        for call, task in list(under_way.items()):
            late = time.monotonic() - task.begun > _TASK_MAX_S * len(task.items)
            if (late or not here.intersection(task.addresses)) and call.cancel():
                del under_way[call]
                todo.put_back(task.cell, task.items)

    def _taken(self, todo: Todo[Item], task: Task[Item], call: Future[Answer]) -> None:
        left = list(task.items)
        host: ClusterHost | None = None
        try:
            answer = call.result()
            host = self._roster.at(answer.worker)
            if host is None or answer.worker not in task.addresses or not host.present:
                return
            for item in self._take(host, task.items, answer):
                left.remove(item)
        except CallFailed as error:
            self._fail(task.items[0], str(error))
        except HostLost as error:
            assert host is not None
            self._roster.lose(host, str(error))
        except FalseClaim as error:
            assert host is not None
            self._roster.lose(host, str(error), distrusted=True)
        finally:
            todo.put_back(task.cell, left)
