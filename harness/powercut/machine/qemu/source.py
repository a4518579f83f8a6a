# SPDX-License-Identifier: Apache-2.0
"""The QEMU of a machine: the host's, another suite's, or one that is given."""

from __future__ import annotations

from pathlib import Path

from powercut.machine.qemu.build import QemuBuild, examine_qemu, find_qemu
from powercut.machine.suites import suites
from powercut.model.versions import HOST, is_path


def qemu_of(choice: str, *, deadline: float) -> QemuBuild:
    """The QEMU that `choice` means: `host`, a suite, or an absolute path.

    `deadline` is on time.monotonic().  Raises HostError with a remedy, or DeadlineExceeded.
    """
    if choice == HOST:
        return examine_qemu(find_qemu())
    if is_path(choice):
        return examine_qemu(Path(choice))
    return suites().qemu(choice, deadline=deadline)
