# SPDX-License-Identifier: Apache-2.0
"""A program over layers below its file system: each state is recovered through the same layers."""

import pytest
from shipped_cells import run_cells

from powercut.paths import ROOT
from powercut.recover.uml.boot import unavailable

pytestmark = [
    pytest.mark.vm,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]
SCENARIO = ROOT / "scenarios" / "matrix" / "stacks.yaml"
MIRRORS = ("raid1-degraded", "raid1-degraded-liar")
LAYERS = ("three", "integrity-direct")
HOST = ROOT / "scenarios" / "matrix" / "host-below.yaml"


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    return run_cells(SCENARIO, tmp_path_factory.mktemp("layers"), *LAYERS)


@pytest.mark.nightly
def test_what_was_flushed_through_three_layers_comes_back(layers):
    cell, shown = layers["three"]
    (trial,) = cell["trials"]  # no control was run, so that it vouches for nothing
    assert (trial["verdict"], trial["findings"]) == ("safe", [])
    assert "layers from the disk up: linear: " in shown


@pytest.mark.nightly
def test_checksums_without_a_journal_leave_states_that_cannot_be_read(layers):
    cell, _ = layers["integrity-direct"]
    assert (cell["verdict"], cell["trials"][0]["commits_lost"]) == ("lossy", 0), cell["reasons"]
    found = {found["kind"]: found["message"] for found in cell["trials"][0]["findings"]}
    # The kernel says which sector at most so often, so not in each state.
    assert "the file system does not mount: mount ext4: " in found["not-recovered"]


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    return run_cells(HOST, tmp_path_factory.mktemp("images"), "xfs-falloc-none", "ext4-unsafe")


def test_what_was_flushed_to_an_image_in_a_host_s_file_system_comes_back(images):
    cell, shown = images["xfs-falloc-none"]
    (trial,) = cell["trials"]  # no control was run, so that it vouches for nothing
    assert (trial["verdict"], trial["findings"]) == ("safe", [])
    assert "image on xfs (none, falloc): a flush is an fsync of the image" in shown


def test_what_a_hypervisor_did_not_flush_is_lost_with_the_page_cache_of_its_host(images):
    cell, _ = images["ext4-unsafe"]
    (trial,) = cell["trials"]
    assert trial["verdict"] == "lossy", cell["reasons"]
    assert trial["commits_lost"] == trial["commits_acked"] > 0


def test_what_a_mirror_has_on_the_disk_that_comes_back_is_all_that_there_is(tmp_path):
    """The first disk of both keeps its promises; it is the one that does not come back."""
    cells = run_cells(SCENARIO, tmp_path, *MIRRORS)
    (trial,) = cells["raid1-degraded"][0]["trials"]
    assert (trial["verdict"], trial["findings"]) == ("safe", [])
    (trial,) = cells["raid1-degraded-liar"][0]["trials"]
    assert trial["verdict"] == "lossy"
    assert trial["commits_lost"] == trial["commits_acked"] > 0
