# SPDX-License-Identifier: Apache-2.0
"""The stores whose promises rest on luck: what they say of themselves while nothing is cut."""

from __future__ import annotations

import os
import subprocess

import pytest

from bench.lucky_faults import ALONE, IMPATIENT, PARTIAL, cells, command
from bench.planted_trials import MEDIA
from powercut.paths import PROGRAMS


def said(way, honest, verb, folder):
    reading, writing = os.pipe()
    words = (*command(way, honest=honest), "operations=7", verb, folder)
    settings = {"POWERCUT_FD": str(writing), "PATH": os.environ["PATH"]}
    try:
        subprocess.run(words, check=True, pass_fds=(writing,), env=settings)
    finally:
        os.close(writing)
    with os.fdopen(reading) as lines:
        return lines.read().splitlines()


@pytest.mark.parametrize("honest", [False, True])
@pytest.mark.parametrize("way", [*ALONE, *IMPATIENT])
def test_all_that_was_acknowledged_is_there_while_nothing_is_cut(tmp_path, way, honest):
    """Nor is anything lost by who goes on; a log begins anew with the same entries."""
    folder = tmp_path / "store"
    said(way, honest, "setup", folder)
    assert said(way, honest, "check", folder) == []
    lines = said(way, honest, "run", folder)
    assert lines[0] == "ready"
    assert [line for line in lines if line.startswith("+")] == [f"+ {n}" for n in range(1, 8)]
    assert said(way, honest, "check", folder) == [f"= {n}" for n in range(1, 8)]
    said(way, honest, "run", folder)
    last = 7 if way in IMPATIENT else 14
    assert said(way, honest, "check", folder) == [f"= {n}" for n in range(1, last + 1)]


def test_each_way_to_rest_on_either_luck_is_described():
    assert (len(ALONE), len(IMPATIENT), len({*ALONE, *IMPATIENT})) == (11, 10, 21)
    text = (PROGRAMS / "lucky").read_text()
    assert all(f"\n{way.ljust(12)}" in text for way in (*ALONE, *IMPATIENT))
    made = list(cells())
    assert all(one.way not in MEDIA for one in made), "else nobody can choose it"
    assert len(made) == len(set(made)) == (21 + len(PARTIAL)) * 2 * 2 * 3
