# SPDX-License-Identifier: Apache-2.0
"""Stores that promise less than each ack: what they lose is a hole, or that they do not open."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from folders_judged import judged_by

from powercut.campaign.folder import CaptureOrder, record_folder
from powercut.crash.folder_rows import Promise
from powercut.model.observation import Observation
from powercut.paths import PROGRAMS
from powercut.recording.folder import open_capture
from powercut.store.folder import CaptureDir

pytestmark = pytest.mark.fuse

OPERATIONS = 60
KEEPS = ("every", "prefix", "opens")


def told_on(descriptor: int) -> dict[str, str]:
    return {"POWERCUT_FD": str(descriptor), "PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    ("fault", "every", "expected"),
    [
        ("none", 0, ("LOSSY", "SAFE", "SAFE")),
        ("none", 7, ("LOSSY", "SAFE", "SAFE")),
        ("none", 1, ("SAFE", "SAFE", "SAFE")),
        ("spread", 0, ("LOSSY", "LOSSY", "SAFE")),
        ("skip", 0, ("LOSSY", "LOSSY", "SAFE")),
        ("count", 0, ("LOSSY", "LOSSY", "LOSSY")),
    ],
)
def test_each_promise_is_held_against_its_store(
    tmp_path: Path, fault: str, every: int, expected: tuple[str, ...]
) -> None:
    """The recording is the same; only what is promised differs."""
    tail = [str(PROGRAMS / "tail"), f"fault={fault}", f"every={every}", f"operations={OPERATIONS}"]
    folder = tmp_path / "folder"
    subprocess.run([*tail, "setup", folder], check=True, env=told_on(1))
    command = (*tail, "promise=prefix", "run", str(folder))
    directory = CaptureDir.create(tmp_path / "recording")
    order = CaptureOrder(folder, command, ("check",), 0, 120.0, 4096, 1)
    assert record_folder(order, directory).status == 0, directory.console.read_text()
    recorded = open_capture(directory)
    assert (recorded.history.keeps, len(recorded.history.acked)) == ("prefix", OPERATIONS)

    def check(state: Path) -> Observation:
        command = [*tail, "check", state]
        said = subprocess.run(command, check=False, stdout=subprocess.PIPE, env=told_on(1))
        return Observation((), complete=said.returncode == 0, lines=said.stdout)

    found = []
    for keeps in KEEPS:
        recording = replace(recorded, history=replace(recorded.history, keeps=keeps))
        scratch = tmp_path / f"states-{keeps}"
        result = judged_by(check, recording, Promise.JOURNAL, scratch, states=200)
        found.append(result.verdict.name)
        assert (result.control, result.keeps) == ("LOSSY", keeps)
        assert result.positive is not None
        assert result.positive.found == OPERATIONS
        assert bool(result.untested and "survive" in result.untested[0]) == (keeps != "every")
        assert (result.explored.coverage.at_acks is None) == (keeps != "every")
        kinds = {one.kind.value for one in result.explored.findings if one.verdict.name == "LOSSY"}
        assert kinds <= ({"not-recovered"} if keeps == "opens" else {"lost", "not-recovered"})
    assert tuple(found) == expected
