# SPDX-License-Identifier: Apache-2.0
"""A home that cannot be written to: the check that was just given is run all the same."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from command_line import powercut

from powercut.store import own

KEEPER = """#!/bin/sh
case $1 in
run)
    for n in 1 2 3 4 5 6 7 8 9 10 11 12; do
        echo "? $n"
        echo "$n" >>"$2/log"
        [ "$3" = unsynced ] || sync "$2/log" "$2"
        echo "+ $n"
    done >&"$POWERCUT_FD"
    ;;
check) grep -aE '^[0-9]+$' "$2/log" 2>/dev/null | sed 's/^/= /' >&"$POWERCUT_FD" ;;
esac
"""


@pytest.mark.parametrize(
    ("sync", "status", "verdict"), [("synced", 0, "SAFE"), ("unsynced", 1, "LOSSY")]
)
def test_one_command_has_its_verdict_and_says_that_later_ones_have_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sync: str, status: int, verdict: str
) -> None:
    monkeypatch.setattr(own._Process, "marked", False)
    program, files, results = tmp_path / "keeper", tmp_path / "files", tmp_path / "results"
    program.write_text(KEEPER)
    program.chmod(0o755)
    files.mkdir()
    home = {"HOME": "/proc", "XDG_STATE_HOME": ""}
    check = ("--check", f"{program} check {files}", files, "--", program, "run", files, sync)
    done = powercut("capture", "--budget", 32, "--results", results, *check, **home)
    assert done.returncode == status, done.stdout + done.stderr
    assert verdict in done.stdout
    assert done.stderr == (
        "powercut: later commands will not know what this one recorded as made here: no key that "
        "only you know can be kept at /proc/.local/state/powercut/recordings.key; set "
        "XDG_STATE_HOME to a folder of yours\n"
    )

    (recording,) = (results / "capture").iterdir()
    monkeypatch.setattr(own._Process, "marked", False)
    assert powercut("verify", recording, **home).returncode == status
    monkeypatch.setattr(own._Process, "key", secrets.token_bytes(32))  # as of a later process
    later = powercut("verify", recording, **home)
    assert later.returncode == 3
    assert "it was not recorded here" in " ".join(later.stdout.split())
