# SPDX-License-Identifier: Apache-2.0
"""A program of a scenario that syncs once too seldom and once too often: both are named, and where
it asked."""

from pathlib import Path

import pytest

from powercut.campaign.runner import run_scenarios
from powercut.cli.lookup import find_trials
from powercut.explore.request import Budget
from powercut.model.verdict import LsnRange, Verdict
from powercut.recording.sealed import open_trial
from powercut.recover.uml.engine import unavailable
from powercut_extras.audit.flushes import audit
from powercut_extras.audit.stored import Asker, Worth

pytestmark = pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))

MISSING, TWICE, WRITTEN, ALL = 7, 11, 13, 16
PROGRAM = f"""#!/bin/sh
# Appends a line an operation and syncs it; not the {MISSING}th, and the {TWICE}th two times.  The
# {WRITTEN}th has no sync: it is written to a file opened with O_DSYNC.
say() {{ echo "$1" >&"$POWERCUT_FD"; }}
verb=$1 log=$2/log
case $verb in
setup) mkdir -p "$2" && : > "$log" ;;
run) say ready
    for n in $(seq {ALL}); do
        say "? $n"
        case $n in
        {MISSING}) echo "$n" >> "$log" ;;
        {WRITTEN}) echo "$n" | dd of="$log" oflag=append,dsync conv=notrunc status=none ;;
        *) echo "$n" >> "$log"; sync "$log" ;;
        esac
        [ "$n" != {TWICE} ] || sync "$log"
        say "+ $n"
    done
    sleep 600 ;;
check) while read -r n; do say "= $n"; done < "$log" ;;
esac
"""
SCENARIO = f"""
powercut: 1
name: syncs
description: One sync is missing, one is superfluous.
controls: none
# Pressed, the kernel may write between two syncs, and the second would not be idle.
workload:
  {{kind: program, command: ./syncs, at_most: 60s, syncs: traced, writeback: usual}}
cut: {{trigger: {{acks: {ALL}}}}}
explore: {{budget: 60, policies: [durable-only]}}
cells:
  - {{name: ext4, filesystem.type: ext4, expect: lossy}}
"""


def test_the_missing_sync_and_the_superfluous_one_are_named(tmp_path):
    program = tmp_path / "syncs"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    scenario = tmp_path / "syncs.yaml"
    scenario.write_text(SCENARIO)
    (run,) = run_scenarios([scenario], seed=3, results=tmp_path / "results").runs
    (trial,) = find_trials(Path(run.result_directory))
    (cell,) = run.cells
    assert cell.verdict is Verdict.LOSSY
    assert {span for one in cell.trials for f in one.findings for span in f.lsns} == {
        LsnRange(MISSING, MISSING)
    }
    audited = audit(open_trial(trial), budget=Budget(states=4), engine="uml")
    assert (audited.counted, audited.acknowledged) == ("operation", ALL)
    (idle,) = audited.of(Worth.IDLE)
    # The flush before it ended the first sync of the same operation.
    before = [one for one in audited.promises if one.request < idle.request]
    assert idle.request - before[-1].request == 1
    site, _, written = audited.sites
    assert [(one.call, one.path, one.calls) for one in audited.sites] == [
        ("fsync", "log", ALL - 1),  # two less and one more
        ("open(O_DSYNC)", "log", 1),
        ("write(O_DSYNC)", "log", 1),
    ]
    asked = {number for one in audited.promises for number in one.sites}
    assert asked == {site.number, written.number}
    assert (idle.asker, idle.sites) == (Asker.CALL, (site.number,))
    assert audited.unsynced == (LsnRange(MISSING, MISSING),)
    assert audited.untraced == ()
    assert audited.states == 4
    assert audited.undecided == ()
