# SPDX-License-Identifier: Apache-2.0
"""The machine of a recording follows from its seed, and no two boots of it share pids."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from powercut.model.machine_identity import FIRST_PID, MachineIdentity

SEEDS = st.integers(0, 2**63)
PROCESSES = 4000
"""Of one check, without reaching those of another level."""

PIDS_END = 32768

KERNEL_PIDS = 1000
"""A kernel's threads, and all that ran in a guest before the program of a run, stay below."""


@given(SEEDS, SEEDS)
def test_it_is_the_same_for_the_same_seed_alone(one: int, other: int) -> None:
    first, second = MachineIdentity(one), MachineIdentity(other)
    same = one == other
    assert (first.mac == second.mac) == same
    assert (first.machine_id == second.machine_id) == same


@given(SEEDS)
def test_it_is_one_that_programs_take(seed: int) -> None:
    machine = MachineIdentity(seed)
    assert re.fullmatch(r"02(:[0-9a-f]{2}){5}", machine.mac)  # administered locally, of one card
    assert re.fullmatch(r"[0-9a-f]{32}", machine.machine_id)


def firsts(seed: int, *checks: str) -> list[list[int]]:
    machine = MachineIdentity(seed)
    return [
        sorted(machine.boot_for(check, level).first_pid for check in checks) for level in range(4)
    ]


@given(SEEDS, st.text(), st.text())
def test_checks_one_after_the_other_share_no_pid(seed: int, one: str, other: str) -> None:
    levels = firsts(seed, one, other)
    assert levels[0][0] >= FIRST_PID
    assert all(after[0] - before[1] >= PROCESSES for before, after in itertools.pairwise(levels))
    assert levels[-1][1] + PROCESSES < PIDS_END
    assert firsts(seed, one, other) == levels


@given(SEEDS, st.integers(1, 1000))
def test_kernels_that_recover_share_no_pid_with_the_next_ones(seed: int, number: int) -> None:
    machine = MachineIdentity(seed)
    pids = [machine.boot(number + later).first_pid for later in range(200)]
    assert KERNEL_PIDS < machine.boot(0).first_pid < FIRST_PID - PROCESSES
    assert FIRST_PID <= min(pids) <= max(pids) < PIDS_END - 1000
    assert min(abs(pid - pids[0]) for pid in pids[1:]) >= 100


def test_boots_differ() -> None:
    machine = MachineIdentity(1)
    assert len({machine.boot_for(f"{check}").first_pid for check in range(100)}) > 90
