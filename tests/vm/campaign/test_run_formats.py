# SPDX-License-Identifier: Apache-2.0
"""Image formats, captured below the format: honest disks keep everything, lying ones lose
exactly what was acknowledged, and an image that does not open has not recovered."""

from __future__ import annotations

from pathlib import Path

import pytest

from powercut.disk.backing import NAME
from powercut.disk.growing_file import size_on_disk
from powercut.disk.image_format import ImageOpening
from powercut.explore.explorer import ExploreRequest, explore
from powercut.model.errors import UsageError
from powercut.model.machine import ImageFormat
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.recording.sealed import SealedTrial
from powercut.report.words import how_repaired
from powercut.rig import image_open
from powercut.store.layout import ResultDir
from powercut.wal.layout import SlotState
from powercut.workload.wal.commands import EARLIER_SLOTS

NIGHTLY = pytest.mark.nightly
OTHERS = ("vdi", "vpc", "vmdk", "vhdx", "qed")
FORMATS = ["qcow2", *(pytest.param(name, marks=NIGHTLY) for name in OTHERS)]
CUT = "cut: {trigger: {acks: 30}}\ncontrols: none\nexplore: {budget: 2}\n"
"""Each state on an image format takes two guests."""

HALF_ALLOCATED = 32 << 20
"""Half of the guest's disk: an image that was not allocated beforehand is smaller."""

RAW_LOG = (
    "filesystem: {type: raw}\n"
    "workload: {layout: raw, direct: true, record: 4096, align: 4096, capacity: 64 KiB}\n"
)


def only(result):
    (cell,) = result.cells
    (trial,) = cell.trials
    return trial


def trial_dir(result):
    (trial,) = ResultDir.open(Path(result.result_directory)).trials()
    return trial


@pytest.mark.parametrize("image_format", FORMATS)
def test_an_honest_disk_keeps_and_a_lying_one_loses_everything(run, image_format):
    """The log has 16 slots and wraps; where they lie only the format knows."""
    machine = f"machine: {{format: {image_format}}}\n"
    an_honest_one_keeps(run, image_format, RAW_LOG + machine)
    cut = CUT.replace("budget: 2", "budget: off")
    lying = only(run(RAW_LOG + machine + cut + "disk: {flush: ignored}\nexpect: lossy\n"))
    first = max(1, lying.commits_attempted - 15)
    assert lying.lost_lsns == (LsnRange(first, lying.commits_acked),)
    assert {f.kind for f in lying.findings} == {FindingKind.LOST, FindingKind.EXPOSED}


@NIGHTLY
@pytest.mark.parametrize(
    ("image_format", "file"),
    [
        ("qcow2", ""),
        ("vpc", ""),
        # By default blocks of 32 MiB.
        ("vhdx", ", aio: threads, grows: true, format_options: [block_size=1048576]"),
    ],
)
def test_an_image_that_grows_keeps_a_file_system(run, image_format, file):
    """The image is a file that grows, where it cannot grow inside a disk."""
    assert ImageFormat(image_format).grows is not bool(file)
    honest = an_honest_one_keeps(
        run, image_format, f"filesystem: {{type: xfs}}\nmachine: {{format: {image_format}{file}}}\n"
    )
    if file:
        assert size_on_disk(trial_dir(honest).base_image) < HALF_ALLOCATED


def an_honest_one_keeps(run, image_format, settings):
    honest = run(settings + CUT)
    trial = only(honest)
    assert trial.findings == ()
    assert trial.exposure.records == 0
    assert trial.verdict is Verdict.SAFE
    states = trial.states  # each went on: what the format takes for free may be a record
    assert (states.engine, states.states, states.went_on, states.lossy) == ("guest", 2, 2, 0)
    assert states.by_policy["durable-only"] == 1
    facts = trial_dir(honest).read_record().recovery_facts
    if image_format != "vpc":  # which has no check
        assert "No errors were found on the image" in facts["image_check"]
    return honest


@NIGHTLY
def test_an_overlay_keeps_its_records_and_what_lies_below_them(run):
    """Records share clusters with those of an earlier log, which is in the backing image."""
    machine = "machine: {format: qcow2, aio: threads, grows: true, backing_image: raw}\n"
    log = "filesystem: {type: raw}\nworkload: {record: 12 KiB, align: 4096}\n"
    result = run(log + machine + CUT)
    trial = only(result)
    assert trial.findings == ()
    assert trial.states.went_on == trial.states.states == 2
    seen = SealedTrial(trial_dir(result)).observation
    there = {SlotState(extent.state): extent for extent in seen.extents}
    assert there[SlotState.INTACT].count >= trial.commits_acked
    stale = there[SlotState.STALE]
    assert stale.slot + stale.count == EARLIER_SLOTS
    assert (trial_dir(result).path / NAME).stat().st_mode & 0o222 == 0


@NIGHTLY
def test_a_format_that_its_user_repairs_first_is_recovered_after_that(run):
    machine = "machine: {format: parallels, aio: threads, grows: true, start: booted}\n"
    honest = run(RAW_LOG + machine + CUT.replace("2}", "1}"))
    trial = only(honest)
    assert (trial.verdict, trial.findings) == (Verdict.SAFE, ())
    assert trial.states.went_on == trial.states.states == 1
    facts = trial_dir(honest).read_record().recovery_facts
    assert facts["image_repaired_by"] == "qemu-img check -r all"
    assert "image was not closed correctly" in facts["image_repairs"]
    (told,) = how_repaired(honest.cells)
    assert "parallels: recovered after `qemu-img check -r all`" in told


@NIGHTLY
@pytest.mark.parametrize(
    "options", ["lazy_refcounts=on", "cluster_size=4096", "preallocation=metadata"]
)
def test_qcow2_options(run, options):
    result = run(
        f"machine: {{format: qcow2, format_options: ['{options}']}}\n{CUT.replace('2}', '1}')}"
        "filesystem: {type: ext4}\n"
    )
    assert only(result).findings == ()
    facts = trial_dir(result).read_record().recovery_facts
    # Lazy refcounts of an image that was not closed in order are wrong, and said to be; whoever
    # opens it for writing counts anew.
    lazy = options == "lazy_refcounts=on"
    assert ("refcount=0" in facts["image_check"]) == lazy
    assert ("Repairing" in facts["image_repairs"]) == lazy


def test_an_image_that_does_not_open_has_not_recovered(run, monkeypatch):
    """What open_image finds in images without a header is tests/unit/disk's business."""
    broken = ImageOpening("qemu-io: can't open: Image not in qcow2 format", "", "")
    monkeypatch.setattr(image_open, "open_image", lambda *_, **__: broken)
    trial = only(run(f"machine: {{format: qcow2}}\n{CUT.replace('2}', 'off}')}expect: lossy\n"))
    assert trial.verdict is Verdict.LOSSY
    (found,) = [f for f in trial.findings if f.kind is FindingKind.NOT_RECOVERED]
    assert "the qcow2 image does not open" in found.message


def test_an_option_that_the_tool_refuses_is_trouble_and_no_verdict(run):
    trial = only(run(f"machine: {{format: qcow2, format_options: [cluster_size=5000]}}\n{CUT}"))
    assert trial.verdict is Verdict.INCONCLUSIVE
    assert "power of two" in trial.findings[0].message


def test_only_a_guest_can_explore_an_image(run):
    trial = trial_dir(run(f"machine: {{format: qcow2}}\n{CUT.replace('2}', 'off}')}"))
    with pytest.raises(UsageError, match="only QEMU can open it"):
        explore(SealedTrial(trial), ExploreRequest(engine="uml"))
