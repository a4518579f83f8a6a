# SPDX-License-Identifier: Apache-2.0
"""Programs on a disk that fails a request: what they acknowledge after that is judged, too."""

import pytest
from shipped_cells import run_cells

from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
SCENARIO = ROOT / "scenarios" / "programs" / "errors.yaml"


BELOW_LAYERS = SCENARIO.with_name("errors-below-layers.yaml")


@pytest.mark.parametrize("name", ["stops", pytest.param("writes-again", marks=pytest.mark.nightly)])
def test_who_does_not_believe_a_second_sync_loses_nothing(tmp_path, name):
    cell, shown = run_cells(SCENARIO, tmp_path, name)[name]
    (trial,) = cell["trials"]  # no control was run, so that it vouches for nothing
    assert (trial["verdict"], trial["findings"]) == ("safe", [])
    assert "Injected error: write, request" in shown


def test_a_sync_that_is_repeated_and_believed_loses_what_had_failed(tmp_path):
    cell, shown = run_cells(SCENARIO, tmp_path, "syncs-again")["syncs-again"]
    (trial,) = cell["trials"]
    assert (cell["verdict"], trial["commits_lost"]) == ("lossy", 1), cell["reasons"]
    (lost,) = trial["lost_lsns"]
    (met,) = trial["injected"]
    request = met.split(",")[1].removeprefix(" request ").split(":")[0]
    assert met.startswith(f"write, request {request}: EIO, ")
    told = [step["text"] for step in trial["loss"]["steps"]]
    failed = f"although request {request} had failed"
    assert f"operation {lost['first']} is acknowledged as durable, {failed}" in told
    assert f"Injected error: {met}." in shown


@pytest.mark.nightly
def test_a_mirror_hides_the_errors_of_one_disk_and_encryption_none(tmp_path):
    layered = run_cells(BELOW_LAYERS, tmp_path, "a-mirror-loses-a-disk", "crypt")
    cell, shown = layered["a-mirror-loses-a-disk"]
    (trial,) = cell["trials"]
    assert (trial["verdict"], trial["findings"], trial["commits_lost"]) == ("safe", [], 0)
    # Which request meets an error first, and after how many the mirror goes without, is timing.
    kinds = [one.partition(",")[0] for one in trial["injected"]]
    assert {*kinds} <= {"write", "flush"}
    assert len(kinds) == len({*kinds}) > 0
    assert all(f"Injected error: {one}." in shown for one in trial["injected"])
    cell, _ = layered["crypt"]
    (trial,) = cell["trials"]
    assert (cell["verdict"], trial["commits_lost"]) == ("lossy", 1), cell["reasons"]


@pytest.mark.nightly
def test_a_mirror_tells_nobody_that_its_first_disk_failed_a_flush(tmp_path):
    """docs/findings/dm-raid-flush.md; the program would have stopped at the first error."""
    names = ("a-mirror-first-cannot-flush", "a-mirror-first-cannot-flush-alone-back")
    safe = "a-mirror-second-cannot-flush"
    dropped = []
    for name, (cell, shown) in run_cells(BELOW_LAYERS, tmp_path, *names, safe).items():
        (trial,) = cell["trials"]
        (met,) = trial["injected"]
        assert met.startswith("flush, request ")
        assert f"Injected error: {met}." in shown
        acked, count = trial["commits_acked"], trial["commits_lost"]
        assert acked >= 16  # it met no error
        (console,) = (tmp_path / "out").glob(f"*/*-7/cells/{name}/0001/console.txt")
        if name == safe:
            assert (trial["verdict"], trial["findings"], count) == ("safe", [], 0)
        elif "disabling device" in console.read_text():
            dropped.append(name)  # md has met the error in a write of its own
        else:
            # Each operation has one flush: all since the first that failed are lost, and no other.
            assert cell["verdict"] == "lossy", cell["reasons"]
            assert trial["lost_lsns"] == [{"first": acked - count + 1, "last": acked}]
    if dropped:
        pytest.skip(f"md wrote its bitmap meanwhile, every 5 s: {dropped}")
