# SPDX-License-Identifier: Apache-2.0
"""What a cut at the first ack leaves of `setup` is a matter of the log, not of who hears when."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from command_line import plain_word

from powercut.campaign.runner import run_scenarios
from powercut.channel.line_channel import LineChannel
from powercut.cli.lookup import find_trials
from powercut.model.verdict import Verdict
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]

# The name that `setup` gives is not synced before the first ack, and is right after it.
PROGRAM = """#!/bin/sh
say() { echo "$@" >&"$POWERCUT_FD"; }
case $1 in
setup) head -c 999 /dev/zero >$2/t; sync $2/t $2; mv $2/t $2/all ;;
run)
    n=1
    while [ $n -le 80 ]; do
        say "? $n"
        printf "%09d\\n" $n | dd of=$2/all bs=10 seek=$n conv=notrunc,fdatasync status=none
        say "+ $n"
        sync $2
        n=$((n + 1))
    done
    sleep 300 ;;
check) tr -d '\\0' <$2/all | sed 's/^0*/= /' >&$POWERCUT_FD ;;
esac
"""
BUSY_S = 3.0


def test_however_late_the_first_ack_is_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = LineChannel.wait_acks

    def late(lines: LineChannel, acks: int, *, timeout_s: float) -> bool:
        enough = heard(lines, acks, timeout_s=timeout_s)
        time.sleep(BUSY_S if acks == 1 else 0)
        return enough

    monkeypatch.setattr(LineChannel, "wait_acks", late)
    program = tmp_path / "program"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    scenario = tmp_path / "creation.yaml"
    scenario.write_text(
        "powercut: 1\nname: creation\nfilesystem: {type: ext4}\nexplore: {budget: 4}\n"
        "cut: {trigger: {acks: 20}}\n"
        f"workload: {{kind: program, command: {plain_word(program)}, at_most: 300s}}\n"
    )
    (run,) = run_scenarios([scenario], seed=7, results=tmp_path / "results").runs
    (cell,) = run.cells
    assert cell.verdict is Verdict.INCONCLUSIVE
    trials = [one.read_record() for one in find_trials(tmp_path / "results")]
    (record,) = [one for one in trials if one.control is None]
    assert record.creation is not None
    assert (record.creation.acked, record.creation.lost) == (True, ("data/all",))
    assert record.creation.unknown == ""
