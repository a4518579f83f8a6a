# SPDX-License-Identifier: Apache-2.0
"""What a layer between the disks and the file system is made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from powercut.scenario.settings_base import Settings


class Target(NamedTuple):
    """One device, mostly of device-mapper, by its table; in that `@NAME` is the device called so.

    `made`: target and table while it is made, where that is another; `message` is what it is sent
    then.
    """

    name: str
    sectors: int
    kind: str
    table: str
    made: str = ""
    message: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """As PID 1 of User-Mode Linux wants it (guests/uml/share.h)."""
        more = (("?", self.made), ("!", self.message))
        line = f"{self.name} {self.sectors} {self.kind} {self.table}"
        return (line, *(mark + text for mark, text in more if text))


class Device(NamedTuple):
    """What a layer lies on."""

    name: str
    sectors: int


class Layer(Settings):
    """Base of the rows."""

    modules: ClassVar[tuple[str, ...]]
    """What of the kernel it takes beyond what recovery does, without what these need."""

    helpers: ClassVar[tuple[str, ...]] = ()
    """What these find by name, and a kernel may have built in."""

    joins: ClassVar[bool] = False
    """Whether it lies over all devices; the others lie over each."""
    layer: str

    @property
    def title(self) -> str:
        """What reports call it."""
        return self.layer

    @property
    @abstractmethod
    def promise(self) -> str:
        """What it makes of a flush and of FUA, in a sentence."""

    @property
    def is_safe(self) -> bool:
        """Whether what was flushed through it, or written with FUA, is there after a power cut."""
        return True

    @abstractmethod
    def over(self, name: str, below: Sequence[Device]) -> tuple[Target, ...]:
        """Its devices over those below; the last one is `name`, on which the next layer lies."""
