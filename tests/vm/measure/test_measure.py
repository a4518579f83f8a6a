# SPDX-License-Identifier: Apache-2.0
"""Real guests, measured without a cut: exact counts at every layer, and where flushes end.

The counts are those of QEMU 7.2 and Linux 6.1.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from powercut.rig.rig import Rig
from powercut.scenario.plan import Cell, draw_trials
from powercut.scenario.settings import DiskModel, Parameters
from powercut_extras.certify.measure.measure import measure_cell
from powercut_extras.certify.measurement import Measurement

COMMITS = 50
OVERWRITE = {
    "layout": "prewritten",
    "sync": "o_dsync",
    "direct": True,
    "record": 4096,
    "align": 4096,
    "capacity": "1MiB",
}
RAW_LOG = {**OVERWRITE, "layout": "raw"}
EXT4_WITHOUT_BARRIERS = {"filesystem": {"type": "ext4", "mount": ["barrier=0"]}}
IDE_RESTORED = {"machine": {"bus": "ide", "cache": "writethrough", "start": "restored"}}

NIGHTLY = pytest.mark.nightly

Measure = Callable[..., Measurement]


@pytest.fixture(scope="module")
def rig() -> Rig:
    return Rig.find()


@pytest.fixture
def measure(rig: Rig, tmp_path: Path) -> Measure:
    def measure_it(models: tuple[DiskModel, ...] = (), **settings: Any) -> Measurement:
        parameters = Parameters.model_validate(settings)
        cell = Cell("cell", parameters, draw_trials(1, "cell", parameters, 1))
        return measure_cell(rig, "test", cell, tmp_path / "cell", models, COMMITS)

    return measure_it


def wire(measurement: Measurement) -> dict[str, tuple[int | None, ...]]:
    """Writes, FUA writes and flushes at each layer; flushes and FUA writes where asked."""
    account = measurement.wire
    assert account is not None, measurement.trouble
    assert account.asked is not None, measurement.trouble
    layers = {"guest": account.guest, "hypervisor": account.hypervisor, "disk": account.disk}
    seen: dict[str, tuple[int | None, ...]] = {
        "asked": (account.asked.flushes, account.asked.fua_writes)
    }
    for name, counts in layers.items():
        assert counts is not None
        seen[name] = (counts.writes, counts.fua_writes, counts.flushes)
    return seen


@NIGHTLY
@pytest.mark.parametrize(
    ("bus", "guest", "requests"),
    [("virtio-scsi-fua", (50, 50, 0), 1.0), ("virtio-scsi", (50, 0, 50), 2.0)],
)
@pytest.mark.parametrize("filesystem", ["xfs", "ext4"])
def test_fua_halves_the_requests_of_a_commit(measure, filesystem, bus, guest, requests):
    measured = measure(machine={"bus": bus}, filesystem={"type": filesystem}, workload=OVERWRITE)
    assert wire(measured) == {
        "asked": (0, 50) if bus == "virtio-scsi-fua" else (50, 0),
        "guest": guest,
        "hypervisor": (50, None, 50),  # which makes FUA a flush of its own
        "disk": (50, 0, 50),
    }
    assert measured.wire.requests_per_commit == requests
    assert measured.wire.bytes_per_committed_byte == 1.0
    assert measured.wire.flush_ends_at == ""
    assert measured.trouble == ""


@pytest.mark.parametrize("cache", ["none", pytest.param("directsync", marks=NIGHTLY)])
def test_honest_caches_pass_every_promise_on(measure, cache):
    measured = measure(machine={"cache": cache})
    seen = wire(measured)
    # A growing file on XFS: the record, and a journal with flush and FUA; one fsync of the
    # folder, at first.
    assert seen["asked"] == (51, 50)
    if cache == "none":
        assert seen["guest"] == seen["disk"] == (100, 0, 101)
        assert seen["hypervisor"] == (100, None, 101)
    else:
        assert seen["guest"] == (100, 0, 0)
        assert seen["disk"] == (100, 100, 0)
    assert (measured.wire.flush_ends_at, measured.wire.because) == ("", "")
    assert (measured.wire.uncovered, measured.wire.not_durable) == (0, 0)


@NIGHTLY
def test_an_nvme_disk_keeps_its_interrupts(measure, tmp_path):
    measured = measure((DiskModel.NVME,), machine={"bus": "nvme"}, filesystem={"type": "ext4"})
    assert measured.trouble == ""
    assert [cost.disk for cost in measured.costs] == [DiskModel.NVME]
    # Linux says so when it takes a line away, and then looks at the disk every now and then.
    assert "nobody cared" not in (tmp_path / "cell" / "console.txt").read_text()


@pytest.mark.parametrize(
    ("settings", "ends_at", "uncovered", "not_durable"),
    [
        ({"machine": {"cache": "unsafe"}}, "hypervisor", 100, 100),
        *(
            pytest.param(*row, marks=NIGHTLY)
            for row in (
                ({"workload": {"sync": "none"}}, "workload", 0, 0),
                (EXT4_WITHOUT_BARRIERS, "file system", 150, 150),
                (
                    {"machine": {"guest_write_cache": "write-through"}},
                    "guest block layer",
                    100,
                    100,
                ),
                (IDE_RESTORED, "hypervisor", 100, 100),
                ({"machine": {"bus": "nvme"}}, "hypervisor", 1, 1),  # FUA is promised and ignored
                ({"disk": {"flush": "ignored"}}, "disk", 0, 100),
            )
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_layer_at_which_flushes_end_is_named(
    measure, settings, ends_at, uncovered, not_durable
):
    measured = measure(**settings)
    assert measured.trouble == ""
    assert measured.wire.flush_ends_at == ends_at, measured.wire.because
    assert (measured.wire.uncovered, measured.wire.not_durable) == (uncovered, not_durable)


@NIGHTLY
def test_fua_that_goes_missing_where_a_flush_follows_is_none(measure):
    """NVMe: Linux sends FUA to a raw device, and a flush after it all the same."""
    measured = measure(machine={"bus": "nvme"}, filesystem={"type": "raw"}, workload=RAW_LOG)
    assert wire(measured)["guest"] == (50, 50, 50)
    assert wire(measured)["disk"] == (50, 0, 50)
    assert (measured.wire.flush_ends_at, measured.wire.uncovered) == ("", 0)


@NIGHTLY
def test_costs_follow_the_disk_and_a_disk_that_lies_is_too_fast(measure, tmp_path):
    disks = (DiskModel.NONE, DiskModel.HDD_7200)
    raw = {"filesystem": {"type": "raw"}, "workload": {**RAW_LOG, "sync": "fdatasync"}}
    honest = measure(disks, **raw)
    (tmp_path / "cell").rename(tmp_path / "honest")
    fast, slow = honest.costs
    assert [fast.disk, slow.disk] == list(disks)
    assert (fast.commits, slow.commits) == (50, 48)
    assert sum(commits for _, commits in slow.histogram) == 48
    assert fast.medium_limit_per_s is None
    assert slow.medium_limit_per_s == 120.0
    assert slow.latency.p50_us > 8333
    assert not slow.too_fast
    # How far above 120 a second it gets is up to the host.
    lying = measure(disks, disk={"flush": "ignored"}, **raw)
    assert lying.costs[1].latency.p50_us < slow.latency.p50_us
    assert lying.wire.flush_ends_at == "disk"


@NIGHTLY
def test_a_disk_with_nothing_volatile_is_never_too_fast(measure):
    """Its plain writes are durable, so that a commit may well wait for nothing."""
    raw = {"filesystem": {"type": "raw"}, "workload": {**RAW_LOG, "sync": "none"}}
    measured = measure((DiskModel.HDD_7200,), disk={"volatile_cache": False}, **raw)
    (cost,) = measured.costs
    assert cost.medium_limit_per_s is None
    assert not cost.too_fast


@NIGHTLY
def test_what_cannot_be_measured_is_said(measure):
    full = measure(workload={**OVERWRITE, "capacity": "16KiB"})
    assert full.wire is None
    assert "the log is full after 4 records" in full.trouble
    assert "capacity" in full.trouble


@NIGHTLY
def test_what_was_counted_is_kept_if_the_rest_fails(measure):
    # 8 to warm up, 50 that count, and no room for more.
    short = measure((DiskModel.SATA_SSD,), workload={**OVERWRITE, "capacity": "232KiB"})
    assert wire(short)["disk"] == (50, 0, 50)
    assert short.costs == ()
    assert short.trouble.startswith("no cost on sata-ssd: the log is full after 58 records")
