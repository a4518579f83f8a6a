# SPDX-License-Identifier: Apache-2.0
"""The store with a fault in one operation of so many: what it says of itself."""

from __future__ import annotations

import os
import subprocess

import pytest

from bench.seldom_faults import PLANTED, TWINS
from powercut.paths import PROGRAMS

SELDOM = PROGRAMS / "seldom"
FAULTS = sorted({one.fault for one in PLANTED})


def said(verb, folder, *settings):
    reading, writing = os.pipe()
    try:
        subprocess.run(
            [SELDOM, "operations=40", *settings, verb, folder],
            check=True, pass_fds=(writing,), env={"POWERCUT_FD": str(writing), "PATH": "/usr/bin"},
        )  # fmt: skip
    finally:
        os.close(writing)
    with os.fdopen(reading) as lines:
        return lines.read().splitlines()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("one_in", [0, 8])
def test_all_that_was_acknowledged_is_there_while_nothing_is_cut(tmp_path, fault, one_in):
    """What is odd shows after a cut alone."""
    folder = tmp_path / "store"
    settings = f"fault={fault}", f"one_in={one_in}", "phase=3"
    assert said("check", folder, *settings) == []
    said("setup", folder, *settings)
    assert said("check", folder, *settings) == []
    lines = said("run", folder, *settings)
    assert lines[0] == "ready"
    assert [line for line in lines if line.startswith("+")] == [f"+ {n}" for n in range(1, 41)]
    assert said("check", folder, *settings) == [f"= {n}" for n in range(1, 41)]


def test_thirty_programs_of_six_faults_each_with_an_honest_twin():
    assert len(PLANTED) == len(set(PLANTED)) == 30
    assert {one.one_in for one in PLANTED} == {1, 8, 10, 16, 32, 50, 64, 100, 200}
    assert sorted(one.fault for one in TWINS) == FAULTS
    assert len(FAULTS) == 6
    assert not any(one.one_in for one in TWINS)
    phases = {one.command(seed)[-1] for one in PLANTED for seed in (1, 2, 3)}
    assert len(phases) > 20, "which operations are faulty differs from run to run"
