# SPDX-License-Identifier: Apache-2.0
"""Combinations that are refused before anything boots."""

from __future__ import annotations

from pathlib import Path

import pytest

from extras import extra
from powercut.model.errors import UsageError
from powercut.scenario.load import parse_scenario
from powercut.scenario.refusal import refusals
from powercut.scenario.settings import Parameters

REFUSED = [
    ({"filesystem": {"type": "raw"}}, ["workload.layout"]),
    ({"workload": {"layout": "raw"}}, ["workload.layout"]),
    (
        {"filesystem": {"type": "raw", "mount": ["ro"]}, "workload": {"layout": "raw"}},
        ["filesystem.mount"],
    ),
    ({"disk": {"size": "8 MiB"}}, ["disk.size"]),
    ({"machine": {"export": "fuse"}}, ["machine.aio"]),
    ({"machine": {"export": "nbd", "aio": "threads"}}, ["machine.aio"]),
    ({"machine": {"export": "nbd", "backend": "libvirt"}}, ["machine.export"]),
    (
        {"machine": {"export": "vhost-user-blk", "bus": "nvme", "format": "qcow2"}},
        ["machine.bus", "machine.format"],
    ),
    ({"machine": {"export": "vhost-user-blk", "start": "restored"}}, ["machine.start"]),
    ({"filesystem": {"type": "btrfs"}}, ["disk.size", "filesystem.mount"]),
    (
        {
            "disk": {"size": "256 MiB"},
            "filesystem": {"type": "btrfs", "mount": ["max_inline=0", "compress=zstd"]},
        },
        ["filesystem.mount"],
    ),
    ({"workload": {"layout": "prealloc", "capacity": "33 MiB"}}, ["workload.capacity"]),
    (
        {
            "filesystem": {"type": "raw"},
            "workload": {"layout": "raw", "capacity": "65 MiB"},
        },
        ["workload.capacity"],
    ),
    (
        {"workload": {"layout": "segments", "segment": "32 MiB"}},
        ["workload.segment", "workload.capacity"],
    ),
    (
        {"workload": {"layout": "segments", "segment": 4096, "record": 8192}},
        ["workload.segment"],
    ),
    ({"workload": {"layout": "segments", "segment": "3 MiB"}}, ["workload.capacity"]),
    (
        {"workload": {"layout": "recycled", "capacity": 4096, "record": 8192}},
        ["workload.capacity"],
    ),
    (
        {"workload": {"layout": "prewritten", "capacity": "64 KiB", "record": 512}},
        ["cut.trigger"],  # 128 slots, cut at record 300
    ),
    ({"workload": {"records": 299}}, ["cut.trigger"]),
    ({"workload": {"think": "1500ns"}}, ["workload.think"]),
    ({"workload": {"depth": 2}}, ["workload.depth"]),
    (
        {"workload": {"layout": "segments", "segment": 4096, "streams": 3, "batch": 3}},
        ["workload.segment"],
    ),
    (
        {"workload": {"layout": "recycled", "capacity": 4096, "streams": 3, "batch": 3}},
        ["workload.capacity"],
    ),
    ({"disk": {"ordered": True}, "cut": {"policy": "random"}}, ["cut.policy"]),
    ({"machine": {"cache": "unsafe"}, "cut": {"trigger": {"flushes": 3}}}, ["cut.trigger"]),
    ({"workload": {"engine": "libaio"}}, ["workload.engine"]),
    ({"workload": {"streams": 128, "batch": 4096, "record": 4096}}, ["workload.batch"]),
    ({"workload": {"plant": "early-ack", "sync": "none"}}, ["workload.plant"]),
    ({"workload": {"plant": "skip-sync:3", "sync": "o_dsync"}}, ["workload.plant"]),
    ({"workload": {"plant": "ack-failed-sync", "sync": "rwf_dsync"}}, ["workload.plant"]),
    ({"workload": {"plant": "wrong-offset:1"}}, ["workload.plant"]),
    ({"workload": {"plant": "torn-write:3"}}, ["workload.plant"]),
    ({"workload": {"plant": "replay-old:3"}}, ["workload.plant"]),
    (
        {"workload": {"plant": "replay-old:3", "layout": "recycled", "sync": "alternate"}},
        ["workload.plant"],
    ),
    ({"workload": {"plant": "skip-sync:3", "sync": "alternate"}}, ["workload.plant"]),
    ({"workload": {"layout": "segments", "sync": "alternate"}}, ["workload.sync"]),
    ({"disk": {"volatile_cache": False, "cache_size": "1 MiB"}}, ["disk.cache_size"]),
    ({"machine": {"start": "restored", "bus": "nvme"}}, ["machine.start"]),
    ({"machine": {"config_wce": "on", "bus": "nvme"}}, ["machine.config_wce"]),
    ({"machine": {"hotplug": True, "bus": "ide"}}, ["machine.hotplug"]),
    ({"machine": {"hotplug": True, "backend": "libvirt"}}, ["machine.hotplug"]),
    ({"machine": {"hotplug": True, "export": "vhost-user-blk"}}, ["machine.hotplug"]),
    ({"machine": {"hotplug": True, "during": ["migrate@9"]}}, ["machine.hotplug"]),
    ({"machine": {"iothread": True, "bus": "nvme"}}, ["machine.iothread"]),
    (
        {"machine": {"iothread": True, "queues": 2, "cpus": 2, "bus": "ahci"}},
        ["machine.iothread", "machine.queues"],
    ),
    ({"machine": {"queues": 4, "cpus": 2}}, ["machine.queues"]),
    (
        {"machine": {"iothread": True, "queues": 2, "cpus": 2, "export": "vhost-user-blk"}},
        ["machine.iothread", "machine.queues"],
    ),
    ({"machine": {"iothread": True, "backend": "libvirt", "like": "<d/>"}}, ["machine.iothread"]),
    ({"machine": {"aio": "native", "cache": "writeback"}}, ["machine.aio"]),
    (
        {"machine": {"bus": "virtio-pmem", "cache": "unsafe", "aio": "threads", "format": "vdi"}},
        ["machine.cache", "machine.aio", "machine.format"],
    ),
    (
        {"machine": {"bus": "nvdimm", "start": "restored"}, "disk": {"size": "33 MiB"}},
        ["machine.start", "disk.size"],
    ),
    ({"machine": {"bus": "nvdimm"}, "cut": {"trigger": {"flushes": 3}}}, ["cut.trigger"]),
    (
        {
            "machine": {"bus": "virtio-pmem"},
            "cut": {"kind": "vm-kill", "policy": "keep", "trigger": {"flushes": 3}},
        },
        ["cut.kind"],
    ),
    (
        {"machine": {"bus": "virtio-pmem"}, "filesystem": {"type": "ext4", "mount": ["dax"]}},
        ["filesystem.mkfs"],
    ),
    (
        {"machine": {"bus": "nvdimm"}, "filesystem": {"mount": ["dax=always"]}},
        ["filesystem.mount"],
    ),
    ({"filesystem": {"mount": ["dax"]}}, ["filesystem.mount"]),
    (
        {"machine": {"guest_write_cache": "switched-off", "bus": "ide"}},
        ["machine.guest_write_cache"],
    ),
    (
        {"machine": {"guest_write_cache": "switched-off", "config_wce": "off"}},
        ["machine.guest_write_cache"],
    ),
    (
        {
            "machine": {"write_cache": "off", "no_flush": "on"},
            "cut": {"trigger": {"flushes": 3}},
        },
        ["cut.trigger", "cut.trigger"],
    ),
    ({"machine": {"format_options": ["cluster_size=4096"]}}, ["machine.format_options"]),
    (
        {"machine": {"format": "qcow2", "format_options": ["lazy_refcounts=on"] * 2}},
        ["machine.format_options"],
    ),
    (
        {"machine": {"format": "qcow2", "format_options": ["backing_file=base.img", "size=1M"]}},
        ["machine.format_options", "machine.format_options"],
    ),
    (
        {"machine": {"format": "vmdk", "format_options": ["subformat=monolithicFlat"]}},
        ["machine.format_options"],
    ),
    ({"machine": {"grows": True}}, ["machine.grows", "machine.grows"]),
    ({"machine": {"cache_after_move": "unsafe"}}, ["machine.cache_after_move"]),
    ({"cut": {"trigger": {"moving": ["0ms", "1s"]}}}, ["cut.trigger"]),
    (
        {
            "machine": {"during": ["migrate@9"]},
            "cut": {"kind": "guest-crash", "policy": "keep", "trigger": {"moving": ["0ms", "1s"]}},
        },
        ["cut.kind"],
    ),
    (
        {"machine": {"during": ["migrate@300"], "bus": "nvme", "format": "vmdk"}},
        ["machine.during", "machine.during", "machine.during"],
    ),
    (
        {"machine": {"during": ["migrate@9", "migrate@9"], "cache_after_move": "directsync"}},
        ["machine.during", "machine.cache_after_move"],
    ),
    (
        {
            "machine": {"during": ["save-restore@9"], "cache_after_move": "unsafe"},
            "cut": {"trigger": {"after": "1s"}},
        },
        ["cut.trigger", "machine.cache_after_move"],
    ),
    (
        {
            "machine": {
                "during": ["migrate@9"],
                "aio": "native",
                "cache_after_move": "writeback",
                "backend": "libvirt",
            }
        },
        ["machine.during", "machine.cache_after_move"],
    ),
    ({"machine": {"during": ["restart@9"], "bus": "virtio-pmem"}}, ["machine.during"]),
    ({"machine": {"qemu_after_move": "sid"}}, ["machine.qemu_after_move"]),
    (
        {"machine": {"during": ["restart@9"], "qemu_after_move": "sid"}},
        ["machine.qemu_after_move"],
    ),
    (
        {"machine": {"during": ["restart@9"], "aio": "threads", "cache_after_move": "unsafe"}},
        ["machine.cache_after_move"],
    ),
    (
        {
            "machine": {"during": ["restart@9", "relaunch@5"]},
            "workload": {"records": 400, "plant": "skip-sync:50"},
        },
        ["workload.records", "workload.plant", "machine.during"],
    ),
    (
        {
            "machine": {"during": ["restart@9"]},
            "workload": {"layout": "recycled", "capacity": "64 KiB"},
        },
        ["cut.trigger"],
    ),
    ({"machine": {"grows": True, "format": "vmdk"}}, ["machine.grows"]),
    (
        {"machine": {"backing_image": "raw", "backend": "libvirt"}},
        ["machine.backing_image", "machine.backing_image", "machine.backing_image"],
    ),
    (
        {
            "machine": {
                "backing_image": "qcow2",
                "grows": True,
                "aio": "threads",
                "format": "qcow2",
                "format_options": ["preallocation=metadata"],
                "during": ["migrate@9"],
            },
            "cut": {"trigger": {"acks": 20}},
        },
        ["machine.format_options", "machine.backing_image"],
    ),
    (
        {"machine": {"format": "vpc", "format_options": ["subformat=fixed"]}},
        ["machine.format_options"],
    ),
    ({"disk": {"model": "sata-ssd", "flush_latency": "2ms"}}, ["disk.flush_latency"]),
    ({"cut": {"kind": "vm-kill", "policy": "drop"}}, ["cut.policy"]),
    ({"deadline": "1s", "cut": {"trigger": {"after": "1s"}}}, ["cut.trigger"]),
    (
        {"cut": {"kind": "guest-crash", "policy": "keep", "trigger": {"flushes": 3}}},
        ["cut.trigger"],
    ),
    ({"deadline": "1s", "cut": {"trigger": {"random": ["1ms", "2s"]}}}, ["cut.trigger"]),
    (
        {"machine": {"cache": "directsync"}, "cut": {"trigger": {"flushes": 3}}},
        ["cut.trigger"],
    ),
    (
        {
            "machine": {"guest_write_cache": "write-through"},
            "workload": {"sync": "none"},
            "cut": {"trigger": {"flushes": 3}},
        },
        ["cut.trigger", "cut.trigger"],
    ),
]


@pytest.mark.parametrize(("settings", "keys"), REFUSED)
def test_what_cannot_be_is_refused_with_every_reason(settings, keys):
    found = refusals(parameters_of(settings))
    assert [key for key, _ in found] == keys, found
    assert all(reason for _, reason in found)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"workload": {"direct": True, "align": 0}},  # the tail is rewritten
        {"filesystem": {"type": "raw"}, "workload": {"layout": "raw", "capacity": "64 MiB"}},
        {"workload": {"engine": "io_uring", "depth": 32}},
        {"disk": {"volatile_cache": False}},
        {"disk": {"volatile_cache": False}, "cut": {"policy": "random"}},  # what is in flight
        {"workload": {"layout": "recycled", "capacity": "64 KiB"}},  # it wraps: no end
        {"workload": {"records": 300}},
        {"disk": {"flush_latency": "8ms"}},
        {"machine": {"iothread": True, "queues": 2, "cpus": 2, "bus": "virtio-scsi-fua"}},
        {"machine": {"hotplug": True, "bus": "nvme", "queues": 1}},
        {"machine": {"hotplug": True, "export": "fuse", "aio": "threads", "format": "qcow2"}},
        {"machine": {"queues": 2, "cpus": 4, "bus": "nvme", "backend": "libvirt"}},
        {"machine": {"during": ["migrate@9", "save-restore@20"], "format": "qcow2"}},
        {
            "machine": {"during": ["migrate@9"]},
            "cut": {"trigger": {"moving": ["0ms", "600ms"]}},
        },
        {"machine": {"during": ["migrate@9"], "aio": "threads", "cache_after_move": "unsafe"}},
        {"machine": {"during": ["restart@9", "relaunch@20"], "bus": "nvme", "format": "vdi"}},
        {"machine": {"during": ["relaunch@9"], "aio": "threads", "cache_after_move": "unsafe"}},
        {"machine": {"during": ["migrate@9", "restart@20"], "qemu_after_move": "sid"}},
    ],
)
def test_what_can_be_is_not_refused(settings):
    assert refusals(parameters_of(settings)) == ()


def parameters_of(settings):
    if settings.get("machine", {}).get("backend") == "libvirt":
        extra("libvirt")
    return Parameters.model_validate(settings)


def test_a_refusal_points_at_what_caused_it_and_names_the_cells():
    text = (
        "powercut: 1\nname: x\n"
        "cut: {trigger: {flushes: 5}}\n"
        "matrix:\n  machine.cache: [none, writethrough, directsync]\n"
    )
    with pytest.raises(UsageError) as caught:
        parse_scenario(text, Path("f.yaml"))
    assert sorted(str(caught.value).splitlines()) == [
        f"f.yaml:3:7: cut.trigger: cache mode {mode} sends writes with FUA and no flush at all "
        f"(in cell cache={mode})"
        for mode in ("directsync", "writethrough")
    ]
