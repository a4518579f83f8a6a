# SPDX-License-Identifier: Apache-2.0
"""On a recorded disk a check sees the machine of the run, which has booted since (as
tests/planted/capture/test_folder_machine.py says of a captured folder)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import powercut

from powercut.recover.uml.boot import unavailable
from support.locked_store import WAYS, locked_store

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]


@pytest.mark.parametrize(("forgetful", "verdict"), [("", "safe"), ("node", "lossy")])
def test_only_what_was_not_synced_is_lost_behind_locks(tmp_path: Path, forgetful, verdict) -> None:
    store = locked_store(tmp_path, forgetful=forgetful)
    limits = ["--acks", "28", "--seconds", "300", "--budget", "32", "--seed", "7"]
    results = ["--json", "-", "--results", tmp_path / "results"]
    done = powercut("record", *limits, *results, "--", store)
    assert done.stdout, done.stderr
    ((run,),) = (json.loads(done.stdout)["runs"],)
    (cell,) = run["cells"]
    (trial,) = cell["trials"]
    assert cell["verdict"] == verdict, cell["reasons"]
    lost = {
        number
        for finding in trial["findings"]
        for lsns in finding["lsns"]
        for number in range(lsns["first"], lsns["last"] + 1)
    }
    assert {WAYS[number % len(WAYS)] for number in lost} == ({forgetful} if forgetful else set())
    positive = trial["positive"]
    if not forgetful:
        assert (positive["found"], positive["acknowledged"]) == (cell["commits_acked"],) * 2
