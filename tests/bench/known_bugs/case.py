# SPDX-License-Identifier: Apache-2.0
"""A known bug as a small program: what it does, what its check finds, and which states lose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final
from zlib import crc32

import numpy as np

from powercut.crash.states import CrashState, StateSpace
from powercut.model.operations import OperationHistory

ENTRY: Final = 64
"""Bytes of an entry of a log, if nothing else is said."""

STEP: Final = 10
"""Nanoseconds from one event of a made recording to the next."""

_HEAD: Final = 12


class Contradiction(Exception):
    """A store that cannot be opened, or that contradicts itself."""


@dataclass(frozen=True)
class Case:
    """A recording of one run, and its check.  `check` returns the operations that it finds, and
    raises Contradiction.  Cuts come after `begin_ns`.

    Whether operations that were never tried are there is not asked: no program here has any.
    """

    space: StateSpace
    history: OperationHistory
    check: Callable[[CrashState], Iterable[int]]
    begin_ns: int = 0

    def loses(self, state: CrashState) -> bool:
        """Whether something acknowledged before the cut is not there, or nothing can be read."""
        try:
            found = frozenset(self.check(state))
        except Contradiction:
            return True
        return not self.history.acked_before(state.instant) <= found


@dataclass(frozen=True)
class Fault:
    """A bug.  `make(True)` is a run of a program that has it, `make(False)` one of its honest twin.

    `family` is `planted` for those of powercut's own tests, `program` or `file system`.
    """

    name: str
    family: str
    what: str
    source: str
    make: Callable[[bool], Case]

    @cached_property
    def faulty(self) -> Case:
        """A run of the program with the bug."""
        return self.make(True)

    @cached_property
    def honest(self) -> Case:
        """A run of its honest twin."""
        return self.make(False)


class Speaker:
    """What a program says of its operations, one thing after another; times are in steps."""

    def __init__(self) -> None:
        self._now = 0
        self._tried: list[tuple[int, int]] = []
        self._acked: list[tuple[int, int]] = []

    def try_(self, operation: int) -> None:
        """`? N`."""
        self._now += STEP
        self._tried.append((operation, self._now))

    def ack(self, *operations: int) -> None:
        """`+ N` of each."""
        for operation in operations:
            self._now += STEP
            self._acked.append((operation, self._now))

    def operations(self, last: int) -> Iterator[int]:
        """Operations 1 to `last`: each is tried before it is done, and then acknowledged."""
        for operation in range(1, last + 1):
            self.try_(operation)
            yield operation
            self.ack(operation)

    def history(self) -> OperationHistory:
        """All that was said."""
        both = (self._tried, self._acked)
        attempts, acks = (np.array(one, dtype=np.int64).reshape(-1, 2) for one in both)
        return OperationHistory(attempts[:, 0], attempts[:, 1], acks[:, 0], acks[:, 1])


def content_of(tree: Mapping[str, bytes], name: str) -> bytes:
    """What a file holds.  Raises Contradiction if it is not there."""
    if name not in tree:
        raise Contradiction(f"{name} is not there")
    return tree[name]


def entry(number: int, size: int = ENTRY) -> bytes:
    """An entry of a log: its number, a checksum over all of it, and bytes of its own."""
    body = (number.to_bytes(4, "little") * (size // 4))[: size - _HEAD]
    head = b"ENTR" + number.to_bytes(4, "little")
    return head + crc32(head + body).to_bytes(4, "little") + body


@lru_cache(maxsize=1 << 14)
def read_entry(data: bytes) -> int | None:
    """The number of the entry that `data` is; None if it is none."""
    head, body = data[: _HEAD - 4], data[_HEAD:]
    said = int.from_bytes(data[_HEAD - 4 : _HEAD], "little")
    if head[:4] != b"ENTR" or crc32(head + body) != said:
        return None
    return int.from_bytes(head[4:], "little")


def read_log(data: bytes, size: int = ENTRY) -> list[int]:
    """The numbers of all entries, up to the first that is none."""
    found = []
    for at in range(0, len(data) - size + 1, size):
        number = read_entry(data[at : at + size])
        if number is None:
            break
        found.append(number)
    return found
