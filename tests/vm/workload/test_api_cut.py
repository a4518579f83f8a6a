# SPDX-License-Identifier: Apache-2.0
"""`import powercut` on a recorded disk: a program is tried, its scenario run again, its recording
opened and judged."""

from __future__ import annotations

from pathlib import Path

import pytest

import powercut
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.fuse,  # the cause is that of captured files
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]


FORGETFUL = """\
#!/bin/sh
# A log of numbers that is never synced.
case $1 in
setup) : >"$2/log" && sync "$2/log" "$2" ;;
run)
    for n in $(seq 30); do
        echo "? $n" >&"$POWERCUT_FD"
        echo "$n" >>"$2/log"
        echo "+ $n" >&"$POWERCUT_FD"
    done ;;
check) sed -n 's/^[0-9][0-9]*$/= &/p' "$2/log" >&"$POWERCUT_FD" ;;
esac
"""


def test_a_program_that_does_not_sync(tmp_path):
    program = tmp_path / "forgetful"
    program.write_text(FORGETFUL)
    program.chmod(0o755)
    tried = powercut.try_program(program, acks=30, budget=8, seed=7, results=tmp_path / "results")
    assert tried.verdict is powercut.Verdict.LOSSY
    assert "no sync of log came after it" in tried.cause
    run = Path(tried.result_directory)
    assert (run / "report.html").is_file()
    (trial,) = (one for cell in tried.cells for one in cell.trials)

    recording = powercut.open(run / trial.result_directory)
    assert recording.verdict() is trial.verdict
    assert [one.message for one in recording.findings()] == [one.message for one in trial.findings]
    state = next(one for one in recording.states(20) if recording.missing(one))
    assert all(map(recording.name, recording.missing(state)))
    image = recording.write_image(state, tmp_path / "state.img")
    assert image.stat().st_size == recording.timeline.disk_size
    with pytest.raises(powercut.PowercutError, match="powercut's own log"):
        recording.exposure()

    alone = tmp_path / "alone.yaml"
    alone.write_text((run / "scenario.yaml").read_text() + "controls: []\n")
    again = powercut.run(powercut.load(alone), seed=7, results=tmp_path / "again")
    assert [cell.verdict for cell in again.cells] == [powercut.Verdict.LOSSY]
    assert (Path(again.result_directory) / "junit.xml").is_file()
