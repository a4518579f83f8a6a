# SPDX-License-Identifier: Apache-2.0
"""Programs of Debian suites that are not the host's: a port, which the extra `suites` fills."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast

from powercut.machine.guest.kernel_package import Kernel
from powercut.machine.qemu.build import QemuBuild
from powercut.model.errors import HostError
from powercut.model.extras import provided


class Suites(Protocol):
    """Fetches what is not in the cache; `deadline` is on time.monotonic().

    All raise UsageError for a suite that powercut does not know, HostError with a remedy, or
    DeadlineExceeded.
    """

    def qemu(self, suite: str, *, deadline: float) -> QemuBuild:
        """The suite's QEMU."""

    def daemon(self, suite: str, *, deadline: float) -> tuple[Path, Path]:
        """What starts the suite's qemu-storage-daemon, and its binary."""

    def kernel(self, suite: str, flavour: str, *, deadline: float) -> Kernel:
        """The suite's kernel, `cloud` or `full`."""

    def uml(self, suite: str, *, deadline: float) -> tuple[Path, Path, str]:
        """The suite's User-Mode Linux: its program, its modules, the path of its libraries."""

    def packages(self, suite: str, names: Sequence[str], cache: Path) -> tuple[Path, ...]:
        """The .deb files of `names`, of what they need, and of the suite's essential packages."""


def suites() -> Suites:
    """What an extra has registered as `powercut.suites`.  Raises HostError where none has."""
    if (found := provided("powercut.suites")) is not None:
        return cast(Suites, found)
    raise HostError(
        "programs of other Debian suites need powercut's extra `suites`, which is not installed",
        hint="leave the suite out, or give a path",
    )
