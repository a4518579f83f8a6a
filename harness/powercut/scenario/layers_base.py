# SPDX-License-Identifier: Apache-2.0
"""What a layer between the disks and the file system is made of."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

from powercut.scenario.settings_base import Settings

MIB: Final = 2048
"""In sectors."""

_PAGE: Final = 8  # sectors: what file systems and caches count in


class Target(NamedTuple):
    """One device, mostly of device-mapper, by its table; in that `@NAME` is the device called so.

    `made`: target and table while it is made, where that is another; `message` is what it is sent
    then, and if `wiped` it is filled with zeroes.  `after` is the table after a cut, where not all
    came back.
    """

    name: str
    sectors: int
    kind: str
    table: str
    made: str = ""
    message: str = ""
    wiped: bool = False
    after: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """As PID 1 of User-Mode Linux wants it (guests/uml/share.h)."""
        more = (("?", self.made), ("!", self.message), ("~", self.after))
        line = f"{self.name} {self.sectors} {self.kind} {self.table}"
        words = [mark + text for mark, text in more if text]
        return (line, *words, *(["0"] if self.wiped else []))


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
    def needs(self) -> tuple[str, ...]:
        """The `modules` of these settings."""
        return self.modules

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
        """Its devices over those below; the last one is `name`, on which the next layer lies.
        Raises UsageError if it cannot lie so."""


def parts_of(name: str, device: Device, **sizes: int) -> tuple[Target, ...]:
    """Devices of so many sectors one behind the other on `device`, each called by its word."""
    parts: list[Target] = []
    begin = 0
    for word, size in sizes.items():
        parts.append(Target(f"{name}.{word}", size, "linear", f"@{device.name} {begin}"))
        begin += size
    return tuple(parts)


def whole(sectors: int) -> int:
    """Those that make whole pages."""
    return sectors // _PAGE * _PAGE
