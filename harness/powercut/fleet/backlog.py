# SPDX-License-Identifier: Apache-2.0
"""The trials that are still to be made, and who makes which.

Hosts come and take one when they are free, so nothing is submitted ahead of its time, and what is
under way is never more than there are jobs.  A host keeps to the cell that it is at, since each
host owes the controls of each cell that it has a part in; only when a cell has nothing left it
goes to one that it knows, else to the one with the fewest hosts.  What a host could not do is given
back, and the others, who wait for that, take it.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

Item = TypeVar("Item")


class _Group(Generic[Item]):
    """Items to be taken: those that were given back, then the others, made when they are due."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.back: deque[Item] = deque()
        self._rest = iter(items)

    def __bool__(self) -> bool:
        if not self.back:
            self.back.extend(itertools.islice(self._rest, 1))
        return bool(self.back)


class Backlog(Generic[Item]):
    """Items in groups; each is taken, and then done or given back."""

    def __init__(self, groups: Mapping[str, Iterable[Item]]) -> None:
        self._groups = {name: _Group(items) for name, items in groups.items()}
        self._at: dict[str, str] = {}
        self._been: dict[str, set[str]] = {}
        self._under_way = 0
        self._ended = False
        self._changed = threading.Condition()

    def take(self, host: str) -> tuple[str, Item] | None:
        """The next group and item for `host`; None once nothing is left and nothing under way.

        Waits as long as what others do may come back.
        """
        with self._changed:
            while not self._ended:
                group = self._choose(host)
                if group is not None:
                    self._at[host] = group
                    self._been.setdefault(host, set()).add(group)
                    self._under_way += 1
                    return group, self._groups[group].back.popleft()
                if not self._under_way:
                    return None
                self._changed.wait()
            return None

    def done(self) -> None:
        """One that was taken is no longer under way."""
        with self._changed:
            self._under_way -= 1
            if not self._under_way:  # until then whoever waits has nothing to do
                self._changed.notify_all()

    def give_back(self, group: str, item: Item) -> None:
        """One that was taken is to be taken by another; it comes first."""
        with self._changed:
            self._groups[group].back.appendleft(item)
            self._under_way -= 1
            self._changed.notify_all()

    def leave(self, host: str) -> None:
        """`host` takes nothing any more."""
        with self._changed:
            self._at.pop(host, None)

    def end(self) -> None:
        """Nobody gets anything any more."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing that could be taken."""
        with self._changed:
            return not any(self._groups.values())

    def _choose(self, host: str) -> str | None:
        at = self._at.get(host)
        if at is not None and self._groups[at]:
            return at
        busy = Counter(group for other, group in self._at.items() if other != host)
        been = self._been.get(host, set())
        open_ = [name for name, group in self._groups.items() if group]
        return min(open_, key=lambda name: (name not in been, busy[name]), default=None)
