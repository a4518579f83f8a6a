# SPDX-License-Identifier: Apache-2.0
"""A program over layers of device-mapper: each state is recovered through the same layers."""

import pytest
from shipped_cells import run_cells

from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
SCENARIO = ROOT / "scenarios" / "matrix" / "stacks.yaml"
NAMES = ("three", "integrity-direct")


@pytest.fixture(scope="module")
def cells(tmp_path_factory):
    return run_cells(SCENARIO, tmp_path_factory.mktemp("stacks"), *NAMES)


def test_what_was_flushed_through_three_layers_comes_back(cells):
    cell, shown = cells["three"]
    (trial,) = cell["trials"]  # no control was run, so that it vouches for nothing
    assert (trial["verdict"], trial["findings"]) == ("safe", [])
    assert "layers from the disk up: linear: " in shown


def test_checksums_without_a_journal_leave_states_that_cannot_be_read(cells):
    cell, _ = cells["integrity-direct"]
    assert (cell["verdict"], cell["trials"][0]["commits_lost"]) == ("lossy", 0), cell["reasons"]
    found = {found["kind"]: found["message"] for found in cell["trials"][0]["findings"]}
    # The kernel says which sector at most so often, so not in each state.
    assert "the file system does not mount: mount ext4: " in found["not-recovered"]
