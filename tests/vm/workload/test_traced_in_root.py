# SPDX-License-Identifier: Apache-2.0
"""Syncs of a program with a root of its own, in a virtual machine and without one: each is seen and
can be dropped."""

import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from powercut.campaign.runner import run_scenarios
from powercut.cli.lookup import find_trials
from powercut.explore.request import Budget
from powercut.model.operations import Packet
from powercut.model.verdict import Verdict
from powercut.recording.sealed import SealedTrial, open_trial
from powercut.recover.uml.boot import unavailable
from powercut.workload.program.sync_trace import TRACER, read_trace
from powercut_extras.audit.flushes import audit
from powercut_extras.audit.stored import Asker
from powercut_extras.audit.stored_syncs import SyncMutants
from powercut_extras.audit.syncs_verb import syncs

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(
        not Path("/usr/bin/busybox").exists(), reason="busybox-static is not installed"
    ),
    pytest.mark.skipif(not TRACER.is_file(), reason=f"{TRACER} is not built"),
]

ALL = 12
PROGRAM = f"""#!/usr/bin/busybox sh
# Appends a line an operation and syncs it; then it syncs a file that its check does not read.
say() {{ echo "$@" >&"$POWERCUT_FD"; }}
case $1 in
setup) busybox mkdir -p "$2" && : >"$2/log" && : >"$2/unread" ;;
run)
    say ready; n=0
    while [ $n -lt {ALL} ]; do
        n=$((n + 1)); say "? $n"
        echo "$n" >>"$2/log"; busybox sync "$2/log"
        echo >>"$2/unread"; busybox sync -d "$2/unread"
        say "+ $n"
    done
    [ -n "$ENDS" ] || busybox sleep 600 ;;
check) while read -r n; do say "= $n"; done <"$2/log" ;;
esac
"""
SCENARIO = f"""
powercut: 1
name: in-root
controls: none
workload:
  {{kind: program, command: program/log.sh, root: root, at_most: 5min, syncs: traced,
   writeback: usual, dropped_sync: "KEY"}}
disk: {{model: none, size: 32 MiB}}
cut: {{trigger: {{acks: {ALL}}}}}
explore: {{budget: 1, policies: [durable-only]}}
deadline: 10min
cells: [{{name: traced, expect: lossy}}]
"""


def made(folder: Path) -> Path:
    """The program, which has a root beside it in which all lies where it lies on this host."""
    for name in ("root/usr/bin", "program"):
        (folder / name).mkdir(parents=True)
    shutil.copy("/usr/bin/busybox", folder / "root/usr/bin/busybox")
    program = folder / "program/log.sh"
    program.write_text(PROGRAM)
    program.chmod(0o755)
    return program


def key_of(call: str, program: Path, data: Path) -> str:
    """What the tracer calls a site: the same on this host, whose busybox is that of the root."""
    subprocess.run([program, "setup", data], check=True)
    notes = data.with_name("notes")
    argv = [TRACER, f"dir={data}", f"log={notes}", "--", program, "run", data]
    environment = {"PATH": "/usr/bin", "POWERCUT_FD": "2", "ENDS": "1"}
    subprocess.run(argv, check=True, env=environment, stderr=subprocess.DEVNULL)
    (site,) = (one for one in read_trace([Packet(0, notes.read_bytes())]).sites if one.call == call)
    return site.key


@pytest.mark.nightly
def test_in_a_virtual_machine_one_is_dropped_and_the_other_seen(tmp_path: Path) -> None:
    key = key_of("fsync", made(tmp_path), tmp_path / "data")
    (tmp_path / "in-root.yaml").write_text(SCENARIO.replace("KEY", key))
    (run,) = run_scenarios([tmp_path / "in-root.yaml"], seed=3, results=tmp_path / "results").runs
    (trial,) = find_trials(Path(run.result_directory))
    assert run.cells[0].verdict is Verdict.LOSSY, run.model_dump_json(indent=1)
    assert ALL in {n for one in run.cells[0].trials[0].lost_lsns for n in range(one.first, ALL + 1)}
    trace = read_trace(SealedTrial(trial).lines)
    assert {
        (site.call, site.path): (trace.count(site.number), trace.count(site.number, dropped=True))
        for site in trace.sites
    } == {("fsync", "log"): (0, ALL), ("fdatasync", "unread"): (ALL, 0)}
    audited = audit(open_trial(trial), budget=Budget(states=0), engine="auto")
    assert (audited.unsynced, audited.untraced) == ((), ())
    (seen,) = (site.number for site in audited.sites if site.call == "fdatasync")
    asked = [one.sites for one in audited.promises if one.asker is Asker.CALL]
    assert set(asked) == {(seen,)}
    assert len(asked) >= ALL


@pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable()))
def test_without_one_each_is_dropped_and_the_needed_one_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(tmp_path)
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "table.json"
    words = ["--root", "root", "--where", "no-vm", "--acks", str(ALL)]
    words += ["--budget", "32", "--seed", "7", "--size", "32MiB", "--json", str(table)]
    words += ["--results", str(tmp_path / "results"), "--", "program/log.sh"]
    done = CliRunner().invoke(syncs, words, standalone_mode=False)
    assert done.exception is None, done.output
    assert done.return_value == 1  # no check noticed one
    found = SyncMutants.model_validate_json(table.read_text())
    assert (found.verdict, found.reasons, found.acknowledged) == (Verdict.SAFE, (), ALL)
    rows = [(one.site.call, one.site.path, one.site.calls, one.verdict) for one in found.mutants]
    assert rows == [("fsync", "log", ALL, "powercut"), ("fdatasync", "unread", ALL, "none")]
    assert [one.powercut.dropped for one in found.mutants if one.powercut] == [ALL, ALL]
