# SPDX-License-Identifier: Apache-2.0
"""A statically linked program with one needless sync, one of a file and one of a folder: each is
dropped, and the table says which check noticed."""

import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from powercut.cli.mutate_syncs import mutate_syncs
from powercut.model.verdict import Verdict
from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable
from powercut.store.sync_mutants import SyncMutants

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]

SOURCE = Path(__file__).with_name("sync_mutants_planted.c")
TEST = """#!/bin/sh
# The owner's test: passes if what is saved is synced, by the program's own word.
folder=$(mktemp -d) && "$1" setup "$folder/data" || exit 9
mkfifo "$folder/lines" && { POWERCUT_FD=3 "$1" run "$folder/data" 3>"$folder/lines" & }
program=$!
while read -r sign number; do [ "$sign$number" = +3 ] && break; done <"$folder/lines"
wait "$program"
[ "$(wc -c <"$folder/data/unread")" -ge 3 ]
status=$?
rm -r "$folder"
exit $status
"""


def test_each_sync_is_dropped_and_the_table_says_which_check_noticed(tmp_path: Path) -> None:
    program, test = tmp_path / "planted", tmp_path / "owntest"
    include = ROOT / "workloads" / "examples"
    subprocess.run(["cc", "-g", "-static", "-I", include, "-o", program, SOURCE], check=True)
    test.write_text(TEST)
    test.chmod(0o755)
    table = tmp_path / "table.json"
    words = [
        "--acks",
        "12",
        "--budget",
        "40",
        "--seed",
        "7",
        "--results",
        str(tmp_path / "results"),
    ]
    words += ["--json", str(table), "--test", f"{test} {program}", "--", str(program)]
    done = CliRunner().invoke(mutate_syncs, words, standalone_mode=False)
    assert done.exception is None, done.output
    assert done.return_value == 1  # no check noticed one
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
