# SPDX-License-Identifier: Apache-2.0
"""The board of a guest that moves to a QEMU of another version.

`pc` is in each QEMU another name of that version's own board (`pc-i440fx-7.2`), whose devices and
their saved state are those of that version.  A guest keeps its board when it moves; a newer QEMU
knows the boards of older ones, and no QEMU those of newer ones (docs/system/target-i386.rst and
hw/i386/pc_piix.c in QEMU's source).  libvirt writes the name out when a domain is defined.
"""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import Final

from powercut.machine.qemu.build import QemuBuild
from powercut.model.errors import HostError

PC: Final = "pc"
_TIMEOUT_S: Final = 20.0
_ALIAS: Final = re.compile(r"^pc\s.*\(alias of (pc-[a-z0-9.-]+)\)$", re.MULTILINE)


def board_between(first: QemuBuild, then: QemuBuild) -> str:
    """The name of the first QEMU's own board, which the other one has, too.

    Raises HostError if it has not.
    """
    said = _machines(first.program, first.sha256)
    found = _ALIAS.search(said)
    if found is None:
        raise HostError(f"QEMU {first.version} does not say which board its {PC} is")
    board = found[1]
    there = _machines(then.program, then.sha256).splitlines()
    if board not in {line.split(" ")[0] for line in there}:
        raise HostError(
            f"QEMU {then.version} has no {board}, which is the board of a guest of QEMU "
            f"{first.version}",
            hint="a guest moves to a newer QEMU, or to one of the same version; exchange "
            "machine.qemu and machine.qemu_after_move",
        )
    return board


@lru_cache(maxsize=64)
def _machines(program: Path, _sha256: str) -> str:
    try:
        return subprocess.run(
            [str(program), "-machine", "help"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=_TIMEOUT_S,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError(f"{program} does not say which boards it has: {error}") from None
