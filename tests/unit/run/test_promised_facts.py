# SPDX-License-Identifier: Apache-2.0
"""What a guest must see of its disk, by bus and cache mode (docs/buses-and-formats.md)."""

from __future__ import annotations

import pytest

from powercut.model.machine import Bus, CacheMode
from powercut.run.commands import promised_facts
from powercut.scenario.settings import GuestWriteCache, MachineSettings

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
    ],
)
def test_promises(bus, with_cache, without):
    for cache in CacheMode:
        seen = promised_facts(MachineSettings(bus=bus, cache=cache))
        expected = with_cache if cache.write_cache else without
        assert (seen["write_cache"], seen["fua"]) == expected


@pytest.mark.parametrize("bus", Bus)
def test_an_overridden_write_cache_does_not_change_what_the_disk_knows(bus):
    settings = MachineSettings(bus=bus, guest_write_cache=GuestWriteCache.WRITE_THROUGH)
    fua = "1" if bus in (Bus.NVME, Bus.VIRTIO_SCSI_FUA) else "0"
    assert promised_facts(settings) == {"write_cache": THROUGH, "fua": fua}
