# SPDX-License-Identifier: Apache-2.0
"""A crash state as the writes over its base image, which are listed only for who reads them all.

Engines that keep a disk (`powercut.recover.uml.origin`) ask the state what shows where instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import overload

from powercut.crash.applied import AppliedWrite, applied_parts
from powercut.crash.states import CrashState, StateSpace
from powercut.recover.port import ImageWrite


class StateImage(Sequence[ImageWrite]):
    """What to lay over a base image, in order: the writes of `state`, then those `over` them.

    `whole` gives the same object each time for a write that survives whole.
    """

    def __init__(
        self,
        space: StateSpace,
        state: CrashState,
        whole: Callable[[int], ImageWrite],
        over: Sequence[ImageWrite] = (),
    ) -> None:
        self.space = space
        self.state = replace(state, again=None) if state.again else state
        self.over = tuple(over)
        self._whole = whole

    def under(self, more: Sequence[ImageWrite]) -> StateImage:
        """With `more` laid over all of it."""
        return StateImage(self.space, self.state, self._whole, (*self.over, *more))

    @cached_property
    def _listed(self) -> tuple[ImageWrite, ...]:
        torn = self.state.torn_parts
        listed: list[ImageWrite] = []
        for write in self.space.application_order(self.state).tolist():
            if write in torn:
                listed += map(image_write, applied_parts(self.space.timeline, write, torn[write]))
            else:
                listed.append(self._whole(write))
        return (*listed, *self.over)

    def __len__(self) -> int:
        return len(self._listed)

    def __iter__(self) -> Iterator[ImageWrite]:
        return iter(self._listed)

    @overload
    def __getitem__(self, at: int) -> ImageWrite: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[ImageWrite]: ...

    def __getitem__(self, at: int | slice) -> ImageWrite | Sequence[ImageWrite]:
        return self._listed[at]


def image_write(applied: AppliedWrite) -> ImageWrite:
    """The same without the request that it came from."""
    return ImageWrite(applied.offset, applied.length, applied.data)


def laid_over(writes: Sequence[ImageWrite], more: Sequence[ImageWrite]) -> Sequence[ImageWrite]:
    """`writes`, then `more`."""
    return writes.under(more) if isinstance(writes, StateImage) else (*writes, *more)
