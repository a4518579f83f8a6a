# SPDX-License-Identifier: Apache-2.0
"""A statically linked program with one needless sync, one of a file and one of a folder: each is
dropped, and the table says which check noticed.  It is interrupted on its way, and goes on."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from powercut.cli.output import INTERRUPTED
from powercut.model.verdict import Verdict
from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable
from powercut_extras.audit.stored_syncs import SyncMutants
from powercut_extras.audit.syncs_verb import syncs

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]

PATIENCE_S = 120.0
SOURCE = Path(__file__).with_name("sync_mutants_planted.c")
TEST = """#!/bin/sh
# The owner's test: passes if what is saved is synced, by the program's own word.
folder=$(mktemp -d) && mkdir "$folder/data" && "$1" setup "$folder/data" || exit 9
mkfifo "$folder/lines" && { POWERCUT_FD=3 "$1" run "$folder/data" 3>"$folder/lines" & }
program=$!
while read -r sign number; do [ "$sign$number" = +3 ] && break; done <"$folder/lines"
wait "$program"
[ "$(wc -c <"$folder/data/unread")" -ge 3 ]
status=$?
rm -r "$folder"
exit $status
"""


def interrupted(words: list[str], results: Path) -> tuple[str, dict[Path, int]]:
    """The folder to go on from, after Ctrl-C at the second cell; the seals so far."""
    argv = [sys.executable, "-m", "powercut.cli.main", "audit", "syncs", *words]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while not list(results.glob("planted-syncs/2*/cells/sync-1/0001/verdict.json")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=PATIENCE_S)[0]
    assert process.returncode == INTERRUPTED, said
    told = re.search(r"audit syncs --resume (\S+)", said)
    assert told, said
    seals = results.rglob("verdict.json")
    return told[1], {path: path.stat().st_mtime_ns for path in seals}


@pytest.mark.nightly
def test_each_sync_is_dropped_and_the_table_says_which_check_noticed(tmp_path: Path) -> None:
    program, test = tmp_path / "planted", tmp_path / "owntest"
    include = ROOT / "workloads" / "examples"
    subprocess.run(["cc", "-g", "-static", "-I", include, "-o", program, SOURCE], check=True)
    test.write_text(TEST)
    test.chmod(0o755)
    table, results = tmp_path / "table.json", tmp_path / "results"
    words = ["--acks", "12", "--budget", "32", "--seed", "7", "--results", str(results)]
    words += ["--test", f"{test} {program}", "--", str(program)]
    first, before = interrupted(words, results)
    words = ["--json", str(table), "--resume", first]
    done = CliRunner().invoke(syncs, words, standalone_mode=False)
    assert done.exception is None, done.output
    assert done.return_value == 1  # no check noticed one
    assert {path: path.stat().st_mtime_ns for path in before} == before, "recorded once"
    found = SyncMutants.model_validate_json(table.read_text())
    assert (found.verdict, found.reasons) == (Verdict.SAFE, ())
    rows = [
        (one.site.call, one.site.path, one.site.caller.partition(" ")[0], one.verdict)
        for one in found.mutants
    ]
    assert rows == [
        ("fdatasync", "unread", "count", "none"),
        ("fsync", "aside", "save", "powercut"),
        ("fsync", ".", "save", "powercut"),
    ]
    for one in found.mutants:
        assert one.site.calls >= 12
        assert one.powercut is not None
        assert one.powercut.dropped >= 12
        assert (one.powercut.states_lost > 0) == (one.verdict == "powercut")
        assert one.test is not None
        assert one.test.dropped >= 3
    assert "Dropped, and no check noticed:" in done.output
    assert "1: fdatasync of unread in count" in done.output
