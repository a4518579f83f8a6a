# SPDX-License-Identifier: Apache-2.0
"""What a guest must see of its disk, by bus and cache mode (docs/buses-and-formats.md)."""

from __future__ import annotations

import pytest

from powercut.model.machine import Bus, CacheFlags, CacheMode
from powercut.rig.commands import promised_facts, recovery_plan, write_cache_file
from powercut.scenario.settings import (
    FilesystemSettings,
    GuestWriteCache,
    MachineSettings,
    Parameters,
    Switch,
)

BACK, THROUGH = "write back", "write through"


@pytest.mark.parametrize(
    ("bus", "with_cache", "without"),
    [
        (Bus.VIRTIO_BLK, (BACK, "0"), (THROUGH, "0")),
        (Bus.VIRTIO_SCSI, (BACK, "0"), (THROUGH, "0")),
        (Bus.VIRTIO_SCSI_FUA, (BACK, "1"), (THROUGH, "0")),
        (Bus.NVME, (BACK, "1"), (BACK, "1")),
        (Bus.IDE, (BACK, "0"), (THROUGH, "0")),
        (Bus.AHCI, (BACK, "0"), (THROUGH, "0")),
        (Bus.USB_STORAGE, (BACK, "0"), (THROUGH, "0")),
        (Bus.VIRTIO_PMEM, (BACK, "0"), (THROUGH, "0")),  # no cache mode but the first goes with it
        (Bus.NVDIMM, (BACK, "0"), (THROUGH, "0")),
    ],
)
def test_promises(bus, with_cache, without):
    for cache in CacheMode:
        seen = promised_facts(MachineSettings(bus=bus, cache=cache))
        expected = with_cache if cache.write_cache else without
        assert (seen["write_cache"], seen["fua"]) == expected


@pytest.mark.parametrize("cache", CacheMode)
@pytest.mark.parametrize("switch", [Switch.ON, Switch.OFF])
def test_the_parts_of_a_cache_mode_override_it(cache, switch):
    given = MachineSettings(cache=cache, write_cache=switch, direct=switch, no_flush=switch)
    on = switch is Switch.ON
    assert given.host_cache == CacheFlags(write_cache=on, direct=on, no_flush=on)
    assert promised_facts(given)["write_cache"] == (BACK if on else THROUGH)
    implied = MachineSettings(cache=cache).host_cache
    assert implied == CacheFlags(cache.write_cache, cache.direct, cache.no_flush)


def test_a_guest_that_switches_the_write_cache_names_who_is_told():
    files = {
        choice: write_cache_file(MachineSettings(guest_write_cache=choice))
        for choice in GuestWriteCache
    }
    assert files == {
        GuestWriteCache.AS_PROMISED: "",
        GuestWriteCache.WRITE_THROUGH: "/sys/block/vda/queue/write_cache",
        GuestWriteCache.SWITCHED_OFF: "/sys/block/vda/cache_type",
    }
    switched = MachineSettings(guest_write_cache=GuestWriteCache.SWITCHED_OFF)
    assert promised_facts(switched) == {"write_cache": THROUGH, "fua": "0"}


def test_queues_are_promised_where_they_are_chosen():
    assert "queues" not in promised_facts(MachineSettings(cpus=4))
    assert promised_facts(MachineSettings(cpus=4, queues=3))["queues"] == "3"


def test_a_disk_that_is_plugged_in_was_not_there_before():
    assert "disks_at_boot" not in promised_facts(MachineSettings())
    assert promised_facts(MachineSettings(hotplug=True))["disks_at_boot"] == "none"


@pytest.mark.parametrize("bus", Bus)
def test_an_overridden_write_cache_does_not_change_what_the_disk_knows(bus):
    settings = MachineSettings(bus=bus, guest_write_cache=GuestWriteCache.WRITE_THROUGH)
    fua = "1" if bus in (Bus.NVME, Bus.VIRTIO_SCSI_FUA) else "0"
    assert promised_facts(settings) == {"write_cache": THROUGH, "fua": fua}


def test_recovery_needs_no_dax():
    filesystem = FilesystemSettings(mount=("dax=always", "noatime"))
    plan = recovery_plan(Parameters(filesystem=filesystem), bytes(16))
    assert plan.mount_options == "noatime"
