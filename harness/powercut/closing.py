# SPDX-License-Identifier: Apache-2.0
"""What holds something open that has to be closed, also when opening it fails half-way."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import ExitStack
from typing import Any, Self


class Closing(ABC):
    """A context manager whose end is `close`."""

    @abstractmethod
    def close(self) -> None:
        """Ends whatever it has started or holds open; idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ResourceOwner(ABC):
    """A context manager that closes whatever its `_open` has put on a stack, in reverse."""

    def __init__(self) -> None:
        self._held = ExitStack()

    @abstractmethod
    def _open(self, stack: ExitStack) -> None:
        """Opens everything; what has to be closed is put on `stack` as soon as it is open."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._open(stack)
            self._held = stack.pop_all()
        return self

    def __exit__(self, *how: Any) -> None:
        self._held.__exit__(*how)  # what is held may want to know how it ended
