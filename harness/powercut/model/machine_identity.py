# SPDX-License-Identifier: Apache-2.0
"""The machine that a run and all its checks see: one, which has booted again for each check.

A store may hold its lock by the hardware address of a network card, the host's name or its
machine-id, and by a pid.  A lock of another machine is never stale, and one of a pid that happens
to live neither.  So all that names the machine follows from the seed of the recording, on every
host that judges it; and pids of checks begin where no pid of the run is, nor one of a check that
was cut itself.  Those of a run begin where no thread of the kernel that recovers is.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

HOST_NAME: Final = "powercut"
"""The name of that host, as harness/guard/same_machine.h has it."""

FIRST_PID: Final = 10_000
"""Pids of a run are below that, unless it starts more processes."""

_RUN_PID: Final = 3_000
"""A guest's kernel and its agent were seen to take 700 before the program of a run begins."""

_DRAWN: Final = 1_000
_LEVEL_PIDS: Final = 5_000
_LEVELS: Final = 4
"""Pids end at 32,768 where nobody has set another limit (proc(5), pid_max)."""

_BOOT_PIDS: Final = 100
_BOOTS: Final = 200
"""Boots one after the other share no pid of their checks, unless these start more processes."""

_LOCAL: Final = 2  # of an address' first byte: administered locally, of one card


@dataclass(frozen=True)
class MachineIdentity:
    """The machine of the recording with this seed."""

    seed: int = 0

    @property
    def mac(self) -> str:
        """The hardware address of its one network card."""
        return ":".join(f"{byte:02x}" for byte in (_LOCAL, *self._drawn("mac")[:5]))

    @property
    def machine_id(self) -> str:
        """What machine-id(5) describes."""
        return self._drawn("machine-id").hex()[:32]

    def boot(self, number: int) -> Boot:
        """Its boot of this number, from 1, on a kernel of its own that recovers; 0 is a run's."""
        drawn = int.from_bytes(self._drawn("pids")[:8], "big") % _DRAWN
        after = (number - 1) % _BOOTS * _BOOT_PIDS
        return Boot(self, FIRST_PID + drawn + after if number else _RUN_PID)

    def boot_for(self, check: str, level: int = 0) -> Boot:
        """Its boot for a `check`, by a name of its own, after `level` checks that were cut."""
        drawn = int.from_bytes(self._drawn(f"pids/{check}")[:8], "big") % _DRAWN
        return Boot(self, FIRST_PID + level % _LEVELS * _LEVEL_PIDS + drawn)

    def _drawn(self, what: str) -> bytes:
        return hashlib.sha256(f"{self.seed}/{what}".encode()).digest()


@dataclass(frozen=True)
class Boot:
    """One boot of a machine, whose pids begin at `first_pid`."""

    machine: MachineIdentity
    first_pid: int


ANY_MACHINE: Final = MachineIdentity()
"""Where no recording says which."""
