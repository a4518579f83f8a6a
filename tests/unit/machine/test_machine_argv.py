# SPDX-License-Identifier: Apache-2.0
"""The command line follows from the description and from nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from powercut.machine.port import FileDisk, GuestImage, ImageLayer, NbdDisk, NbdFile
from powercut.machine.qemu.argv import (
    NullDisk,
    TemplateRam,
    build_argv,
    first_disk,
    kernel_command_line,
)
from powercut.machine.qemu.devices import device_text
from powercut.machine.qemu.spec import BesideDisk, QemuSpec
from powercut.machine.qemu.template import template_key
from powercut.machine.storage_daemon import export_argv, parse_version
from powercut.model.errors import HostError
from powercut.model.machine import (
    Accelerator,
    Aio,
    Bus,
    CacheFlags,
    CacheMode,
    Export,
    ImageFormat,
    Queueing,
)

QEMU = Path("/usr/bin/qemu-system-x86_64")
SPEC = QemuSpec(
    guest=GuestImage(Path("/g/kernel"), Path("/g/initramfs"), "6.1", "digest"),
    disk=NbdDisk(Path("/run/nbd")),
    channel=Path("/run/ctl"),
    qmp=Path("/run/qmp"),
)


def options(argv: list[str], name: str) -> list[str]:
    return [value for option, value in pairwise(argv) if option == name]


def nodes(argv: list[str]) -> dict[str, dict]:
    return {node["node-name"]: node for node in map(json.loads, options(argv, "-blockdev"))}


def test_the_whole_command_line():
    assert build_argv(SPEC, QEMU, tsc_khz=2600000) == [
        "/usr/bin/qemu-system-x86_64",
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        "-sandbox",
        "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
        *("-M", "pc", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "128M", "-smp", "1"),
        *("-kernel", "/g/kernel", "-initrd", "/g/initramfs"),
        "-append",
        "quiet loglevel=4 earlyprintk=ttyS0,115200,keep 8250.nr_uarts=0 panic=-1"
        " cryptomgr.notests acpi=off pci=nomsi no_timer_check powercut.disk=vda"
        " tsc=reliable tsc_early_khz=2600000",
        *("-chardev", "socket,id=qmp,path=/run/qmp", "-mon", "chardev=qmp,mode=control"),
        *("-chardev", "file,id=console,append=on,path=/proc/self/fd/1"),
        *("-device", "isa-serial,chardev=console", "-device", "virtio-serial-pci"),
        *("-chardev", "socket,id=ctl,path=/run/ctl"),
        *("-device", "virtserialport,chardev=ctl,name=ctl"),
        "-blockdev",
        '{"node-name": "storage", "driver": "nbd",'
        ' "server": {"type": "unix", "path": "/run/nbd"},'
        ' "cache": {"direct": true, "no-flush": false}}',
        "-blockdev",
        '{"node-name": "disk", "driver": "raw", "file": "storage",'
        ' "cache": {"direct": true, "no-flush": false}}',
        "-device",
        "virtio-blk-pci,drive=disk,write-cache=on,werror=report,rerror=report",
    ]


THREAD = ",iothread=disk-thread"
QUEUED = {
    (Bus.VIRTIO_BLK, Queueing(iothread=True)): THREAD,
    (Bus.VIRTIO_BLK, Queueing(queues=4)): ",num-queues=4",
    (Bus.VIRTIO_BLK, Queueing(iothread=True, queues=4)): f"{THREAD},num-queues=4",
    (Bus.VIRTIO_SCSI, Queueing(iothread=True, queues=4)): f"{THREAD},num_queues=4",
    (Bus.VIRTIO_SCSI_FUA, Queueing(iothread=True)): THREAD,
    (Bus.NVME, Queueing(queues=4)): ",max_ioqpairs=4,msix_qsize=5",
}


@pytest.mark.parametrize(("bus", "queueing"), QUEUED)
def test_threads_and_queues_are_the_disks_or_its_controllers(bus, queueing, tmp_path):
    spec = replace(SPEC, bus=bus, queueing=queueing)
    argv, plain = (build_argv(one, QEMU) for one in (spec, replace(SPEC, bus=bus)))
    first, *more = options(plain, "-device")[3:]
    assert options(argv, "-device")[3:] == [first + QUEUED[bus, queueing], *more]
    thread = ["iothread,id=disk-thread"] if queueing.iothread else []
    assert options(argv, "-object") == thread
    assert not thread or argv.index(thread[0]) < argv.index(options(argv, "-device")[3])
    assert template_key(spec, QEMU, 1) != template_key(replace(SPEC, bus=bus), QEMU, 1)


@pytest.mark.parametrize("bus", [bus for bus in Bus if bus.hotpluggable])
def test_a_disk_that_comes_later_has_its_nodes_and_its_controller_and_no_device(bus):
    there = replace(SPEC, bus=bus, queueing=Queueing(iothread=bus.threaded))
    spec = replace(there, hotplug=True)
    first, later = (build_argv(one, QEMU) for one in (there, spec))
    disk = first_disk(spec).disk
    assert [one for one in options(first, "-device") if one not in options(later, "-device")] == [
        device_text(disk)
    ]
    assert nodes(later) == nodes(first)
    assert options(later, "-object") == options(first, "-object")
    words = kernel_command_line(spec).split()
    assert not [word for word in words if word.startswith("powercut.disk=")]
    assert ("acpi=off" not in words) is (bus in (Bus.VIRTIO_BLK, Bus.NVME))
    assert template_key(spec, QEMU, 1) != template_key(there, QEMU, 1)


def test_a_device_that_is_added_has_switches_and_numbers_as_such():
    spec = replace(SPEC, bus=Bus.NVME, queueing=Queueing(queues=2), hotplug=True)
    assert first_disk(spec).disk["max_ioqpairs"] == 2
    assert first_disk(replace(SPEC, bus=Bus.VIRTIO_SCSI_FUA)).disk["dpofua"] is True
    assert first_disk(replace(SPEC, config_wce=False)).disk["config-wce"] is False


@pytest.mark.parametrize("disk", [NbdDisk(Path("/run/nbd")), FileDisk(Path("/run/image"))])
@pytest.mark.parametrize(
    ("mode", "direct", "no_flush", "write_cache"),
    [
        (CacheMode.WRITEBACK, False, False, "on"),
        (CacheMode.NONE, True, False, "on"),
        (CacheMode.WRITETHROUGH, False, False, "off"),
        (CacheMode.DIRECTSYNC, True, False, "off"),
        (CacheMode.UNSAFE, False, True, "on"),
    ],
)
def test_cache_modes_are_spelt_out_on_both_nodes_and_the_device(
    disk, mode, direct, no_flush, write_cache
):
    argv = build_argv(replace(SPEC, disk=disk, cache=mode), QEMU)
    for node in nodes(argv).values():
        assert node["cache"] == {"direct": direct, "no-flush": no_flush}
    assert f"write-cache={write_cache}" in options(argv, "-device")[-1]


DEVICES = {
    Bus.VIRTIO_BLK: ["virtio-blk-pci,drive=disk,write-cache=on,werror=report,rerror=report"],
    Bus.VIRTIO_SCSI: [
        "virtio-scsi-pci,id=scsi",
        "scsi-hd,bus=scsi.0,drive=disk,write-cache=on,werror=report,rerror=report,dpofua=off",
    ],
    Bus.VIRTIO_SCSI_FUA: [
        "virtio-scsi-pci,id=scsi",
        "scsi-hd,bus=scsi.0,drive=disk,write-cache=on,werror=report,rerror=report,dpofua=on",
    ],
    Bus.NVME: ["nvme,serial=powercut,drive=disk,write-cache=on"],
    Bus.IDE: ["ide-hd,bus=ide.0,drive=disk,write-cache=on,werror=report,rerror=report"],
    Bus.AHCI: [
        "ich9-ahci,id=ahci",
        "ide-hd,bus=ahci.0,drive=disk,write-cache=on,werror=report,rerror=report",
    ],
    Bus.USB_STORAGE: [
        "qemu-xhci,id=usb",
        "usb-storage,bus=usb.0,drive=disk,write-cache=on,werror=report,rerror=report",
    ],
}


@pytest.mark.parametrize("bus", DEVICES)
def test_each_bus_has_its_controller_and_its_write_cache(bus):
    argv = build_argv(replace(SPEC, bus=bus), QEMU)
    assert options(argv, "-device")[3:] == DEVICES[bus]
    off = build_argv(replace(SPEC, bus=bus, cache=CacheMode.DIRECTSYNC), QEMU)
    expected = [device.replace("write-cache=on", "write-cache=off") for device in DEVICES[bus]]
    assert options(off, "-device")[3:] == expected


@pytest.mark.parametrize(
    ("given", "words"), [(None, ""), (True, ",config-wce=on"), (False, ",config-wce=off")]
)
def test_the_guest_may_switch_the_write_cache_or_not(given, words):
    argv = build_argv(replace(SPEC, config_wce=given), QEMU)
    assert options(argv, "-device")[-1] == DEVICES[Bus.VIRTIO_BLK][0] + words


def test_a_cache_mode_may_be_given_in_parts():
    flags = CacheFlags(write_cache=False, direct=True, no_flush=True)
    argv = build_argv(replace(SPEC, cache=flags), QEMU)
    for node in nodes(argv).values():
        assert node["cache"] == {"direct": True, "no-flush": True}
    assert "write-cache=off" in options(argv, "-device")[-1]


def test_a_file_of_nbd_is_opened_with_the_calls_that_were_asked_for():
    for aio in (Aio.THREADS, Aio.NATIVE, Aio.IO_URING):
        disk = NbdFile(Path("/run/nbd"), 1 << 20, aio)
        for given in (disk, FileDisk(Path("/run/nbd"), aio)):
            storage = nodes(build_argv(replace(SPEC, disk=given), QEMU))["storage"]
            assert storage == {
                "node-name": "storage",
                "driver": "file",
                "filename": "/run/nbd",
                "aio": aio.value,
                "cache": {"direct": True, "no-flush": False},
            }


@pytest.mark.parametrize(
    ("bus", "board", "device"),
    [
        (Bus.VIRTIO_PMEM, "pc", "virtio-pmem-pci,memdev=disk"),
        (Bus.NVDIMM, "pc,nvdimm=on", "nvdimm,memdev=disk"),
    ],
)
def test_memory_is_a_file_that_is_mapped_and_no_block_device(bus, board, device):
    for disk in (NbdFile(Path("/a,b"), 64 << 20), FileDisk(Path("/a,b"), size=64 << 20)):
        spec = replace(SPEC, bus=bus, disk=disk)
        argv = build_argv(spec, QEMU)
        assert options(argv, "-M") == [board]
        assert options(argv, "-m") == ["128M,slots=1,maxmem=1216M"]
        assert options(argv, "-object") == [
            f"memory-backend-file,id=disk,share=on,size={64 << 20},mem-path=/a,,b"
        ]
        assert options(argv, "-device")[3:] == [device]
        assert options(argv, "-blockdev") == []
        words = kernel_command_line(spec).split()
        assert ("acpi=off" in words) is (bus is Bus.VIRTIO_PMEM), "the NFIT is a table of ACPI"
    assert set(DEVICES) == {bus for bus in Bus if not bus.pmem}


@pytest.mark.parametrize("image", ImageFormat)
def test_a_format_is_a_node_above_the_storage_and_no_part_of_a_template(image, tmp_path):
    qemu = tmp_path / "qemu"
    qemu.write_bytes(b"")
    spec = replace(SPEC, layer=ImageLayer(image, 64 << 20), cache=CacheMode.UNSAFE)
    found = nodes(build_argv(spec, QEMU))
    assert (found["disk"]["driver"], found["disk"]["file"]) == (image.value, "storage")
    assert found["disk"]["cache"] == {"direct": False, "no-flush": True}
    template = nodes(build_argv(spec, QEMU, disk=NullDisk(64 << 20)))
    assert template["disk"]["driver"] == "raw"
    plain = replace(spec, layer=None)
    assert template_key(spec, qemu, 1 << 20) == template_key(plain, qemu, 1 << 20)


@pytest.mark.parametrize("below", [ImageFormat.RAW, ImageFormat.QCOW2])
def test_an_overlay_lies_over_a_read_only_image_that_opens_no_other(below):
    layer = ImageLayer(ImageFormat.QCOW2, 64 << 20, Path("/run/backing.img"), below)
    found = nodes(build_argv(replace(SPEC, layer=layer), QEMU))
    assert found["disk"]["backing"] == "backing"
    assert found["backing-file"]["filename"] == "/run/backing.img"
    assert found["backing"]["driver"] == below.value
    assert all(found[name]["read-only"] for name in ("backing", "backing-file"))
    assert ("backing" in found["backing"]) == (below is ImageFormat.QCOW2)
    assert found["backing"].get("backing") is None
    alone = nodes(build_argv(replace(SPEC, layer=replace(layer, backing=None)), QEMU))
    assert alone["disk"]["backing"] is None
    template = nodes(build_argv(replace(SPEC, layer=layer), QEMU, disk=NullDisk(1)))
    assert "backing" not in template


@pytest.mark.parametrize(
    ("bus", "words"),
    [
        (Bus.VIRTIO_BLK, ["powercut.disk=vda"]),
        (Bus.VIRTIO_SCSI_FUA, ["powercut.disk=sda", "powercut.load=virtio-scsi"]),
        (Bus.NVME, ["powercut.disk=nvme0n1", "powercut.load=nvme"]),
        (Bus.AHCI, ["powercut.disk=sda", "powercut.load=ahci"]),
        (Bus.VIRTIO_PMEM, ["powercut.disk=pmem0", "powercut.load=pmem"]),
        (Bus.NVDIMM, ["powercut.disk=pmem0", "powercut.load=nvdimm"]),
    ],
)
def test_the_guest_is_told_its_disk_and_the_drivers_it_needs(bus, words):
    told = kernel_command_line(replace(SPEC, bus=bus)).split()
    assert [word for word in told if word.startswith("powercut.")] == words


def test_no_network_and_nothing_by_default():
    argv = build_argv(SPEC, QEMU)
    assert "-nodefaults" in argv
    assert not [word for word in argv if "net" in word]


def test_commas_in_paths_are_part_of_the_path():
    odd = replace(SPEC, channel=Path("/a,b/ctl"), qmp=Path("/a,b/qmp"))
    argv = build_argv(odd, QEMU, ram=TemplateRam(Path("/a,b/ram"), saving=False))
    assert "socket,id=ctl,path=/a,,b/ctl" in argv
    assert "socket,id=qmp,path=/a,,b/qmp" in argv
    assert options(argv, "-object")[0].endswith("mem-path=/a,,b/ram")


@pytest.mark.parametrize("saving", [True, False])
def test_ram_of_a_template_is_written_once_and_mapped_privately_ever_after(saving):
    ram = TemplateRam(Path("/t/ram"), saving=saving)
    argv = build_argv(SPEC, QEMU, ram=ram, disk=NullDisk(1 << 20))
    assert options(argv, "-M") == ["pc,memory-backend=ram"]
    share = "on" if saving else "off"
    assert options(argv, "-object") == [
        f"memory-backend-file,id=ram,size=128M,share={share},mem-path=/t/ram"
    ]
    assert options(argv, "-incoming") == ([] if saving else ["defer"])
    assert nodes(argv)["storage"] == {
        "node-name": "storage",
        "driver": "null-co",
        "size": 1 << 20,
        "read-zeroes": True,
    }


def test_an_nvme_disk_may_send_messages():
    words = kernel_command_line(replace(SPEC, bus=Bus.NVME)).split()
    assert not {"acpi=off", "pci=nomsi"} & set(words)
    assert {"acpi=off", "pci=nomsi"} <= set(kernel_command_line(SPEC).split())


def test_processors_but_the_first_are_found_by_acpi():
    words = kernel_command_line(replace(SPEC, cpus=2)).split()
    assert not {"acpi=off", "pci=nomsi"} & set(words)


def test_kvm_guests_keep_acpi():
    spec = replace(SPEC, accelerator=Accelerator.KVM, kernel_arguments=("panic_on_oops=1",))
    argv = build_argv(spec, QEMU)
    assert (options(argv, "-accel"), options(argv, "-cpu")) == (["kvm"], ["host"])
    words = kernel_command_line(spec).split()
    assert words[-1] == "panic_on_oops=1"
    assert not {"acpi=off", "pci=nomsi"} & set(words)


def test_the_key_of_a_template_ignores_paths_and_host_caching_and_nothing_else(tmp_path):
    qemu = tmp_path / "qemu"
    qemu.write_bytes(b"1")

    def key(size: int = 1 << 20, **changes) -> str:
        return template_key(replace(SPEC, **changes), qemu, size)

    first = key()
    elsewhere = replace(SPEC.guest, kernel=Path("/x/kernel"), initramfs=Path("/x/initramfs"))
    assert key(channel=Path("/x/ctl"), qmp=Path("/x/qmp"), guest=elsewhere) == first
    assert key(disk=FileDisk(Path("/x/image"))) == first
    assert key(cache=CacheMode.WRITEBACK) == first
    different = {
        key(2 << 20),
        key(cache=CacheMode.DIRECTSYNC),
        key(memory_mib=256),
        key(cpus=2),
        key(accelerator=Accelerator.KVM),
        key(kernel_arguments=("x",)),
        key(guest=replace(SPEC.guest, digest="other")),
    }
    qemu.write_bytes(b"22")
    different.add(key())
    assert len(different | {first}) == 9


def test_a_missing_qemu_is_told(tmp_path):
    with pytest.raises(HostError, match="no QEMU at"):
        template_key(SPEC, tmp_path / "missing", 1)


def test_a_vhost_user_disk_is_the_daemons_and_shares_the_guests_memory():
    disk = FileDisk(Path("/run/export"))
    spec = replace(SPEC, disk=disk, export=Export.VHOST_USER_BLK, config_wce=False)
    argv = build_argv(spec, QEMU)
    assert nodes(argv) == {}
    assert "memory-backend-memfd,id=ram,size=128M,share=on" in options(argv, "-object")
    assert "socket,id=export,path=/run/export" in options(argv, "-chardev")
    assert "vhost-user-blk-pci,chardev=export,config-wce=off" in options(argv, "-device")


@pytest.mark.parametrize(
    ("kind", "cache", "flags", "through"),
    [
        # Of a vhost-user disk the daemon has the cache mode; QEMU has it of the others.
        (Export.VHOST_USER_BLK, CacheMode.WRITETHROUGH, (False, False), True),
        (Export.VHOST_USER_BLK, CacheMode.UNSAFE, (False, True), None),
        (Export.NBD, CacheMode.UNSAFE, (True, False), None),
        (Export.FUSE, CacheMode.WRITETHROUGH, (True, False), None),
    ],
)
def test_the_daemon_is_told_the_cache_mode_that_it_has(kind, cache, flags, through):
    argv = export_argv(kind, Path("/run/nbd"), Path("/run/export"), cache=cache)
    (node,), (export,) = (
        [json.loads(value) for value in options(argv, name)] for name in ("--blockdev", "--export")
    )
    assert (node["cache"]["direct"], node["cache"]["no-flush"]) == flags
    assert export.get("writethrough") == through


def beside(bus: Bus, name: str, disk=None) -> BesideDisk:
    served = disk or NbdDisk(Path("/run/nbd"), name)
    return BesideDisk(served, 16 << 20, CacheMode.WRITETHROUGH, bus, name)


def test_several_disks_have_nodes_of_their_own_and_say_which_they_are():
    others = (beside(Bus.VIRTIO_SCSI, "b"), beside(Bus.NVME, "c"), beside(Bus.VIRTIO_SCSI_FUA, "d"))
    first = NbdDisk(Path("/run/nbd"), "first")
    spec = replace(SPEC, disk=first, bus=Bus.VIRTIO_BLK, serial="first", beside=others)
    argv = build_argv(spec, QEMU)
    made = nodes(argv)
    exports = [made[node]["export"] for node in ("storage", "storage1", "storage2", "storage3")]
    assert exports == ["first", "b", "c", "d"]
    assert [made[f"disk{n}"]["file"] for n in (1, 2, 3)] == ["storage1", "storage2", "storage3"]
    assert made["disk"]["cache"]["direct"]  # none, and writethrough of the others
    assert not made["disk1"]["cache"]["direct"]
    reported = "werror=report,rerror=report"
    assert options(argv, "-device")[-5:] == [
        f"virtio-blk-pci,drive=disk,write-cache=on,{reported},serial=first",
        "virtio-scsi-pci,id=scsi",
        f"scsi-hd,bus=scsi.0,drive=disk1,write-cache=off,{reported},serial=b,dpofua=off",
        "nvme,serial=c,drive=disk2,write-cache=off",
        f"scsi-hd,bus=scsi.0,drive=disk3,write-cache=off,{reported},serial=d,dpofua=on",
    ]
    words = kernel_command_line(spec).split()
    assert "powercut.load=virtio-scsi,nvme" in words
    assert "acpi=off" not in words  # NVMe takes messages


def test_each_of_several_disks_has_a_thread_but_those_of_one_controller_share_it():
    queueing = Queueing(iothread=True, queues=2)
    buses = (Bus.VIRTIO_SCSI, Bus.VIRTIO_BLK, Bus.VIRTIO_SCSI)
    others = tuple(
        replace(beside(bus, f"{n}"), queueing=queueing) for n, bus in enumerate(buses, 1)
    )
    spec = replace(SPEC, serial="0", beside=others, queueing=Queueing(queues=3))
    argv = build_argv(spec, QEMU)
    threads = ["iothread,id=disk1-thread", "iothread,id=disk2-thread"]
    assert options(argv, "-object") == threads
    first, controller, one, second, other = options(argv, "-device")[-5:]
    assert first.endswith(",serial=0,num-queues=3")
    assert controller == "virtio-scsi-pci,id=scsi,iothread=disk1-thread,num_queues=2"
    assert "bus=scsi.0" in one
    assert "bus=scsi.0" in other
    assert second.endswith(",serial=2,iothread=disk2-thread,num-queues=2")


def test_ide_and_ahci_have_places_for_more_than_one():
    ide = (beside(Bus.IDE, "b"), beside(Bus.IDE, "c"))
    ahci = (*ide, beside(Bus.AHCI, "d"), beside(Bus.AHCI, "e"))
    argv = build_argv(replace(SPEC, bus=Bus.IDE, serial="a", beside=ahci), QEMU)
    places = [word.split(",")[1] for word in options(argv, "-device") if "ide-hd" in word]
    assert places == ["bus=ide.0", "bus=ide.0", "bus=ide.1", "bus=ahci.0", "bus=ahci.1"]


def test_disks_that_lie_in_one_image_are_windows_of_it():
    image = Path("/run/image")
    other = beside(Bus.VIRTIO_BLK, "b", FileDisk(image, size=16 << 20, offset=32 << 20))
    first = FileDisk(image, size=32 << 20, offset=0)
    made = nodes(build_argv(replace(SPEC, disk=first, serial="a", beside=(other,)), QEMU))
    windows = [(made[node]["offset"], made[node]["size"]) for node in ("disk", "disk1")]
    assert windows == [(0, 32 << 20), (32 << 20, 16 << 20)]
    assert {made[node]["locking"] for node in ("storage", "storage1")} == {"off"}


def test_a_template_has_a_stand_in_for_each_disk():
    spec = replace(SPEC, beside=(beside(Bus.VIRTIO_BLK, "b"),))
    stand_ins = nodes(build_argv(spec, QEMU, disk=NullDisk(1 << 20)))
    assert [stand_ins[node]["size"] for node in ("storage", "storage1")] == [1 << 20, 16 << 20]
    assert template_key(spec, QEMU, 1 << 20) != template_key(SPEC, QEMU, 1 << 20)


def test_the_daemons_version_is_qemus_and_not_its_packagers():
    said = "qemu-storage-daemon version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright (c)\n"
    assert parse_version(said) == "7.2.22"
    assert parse_version("qemu-storage-daemon version 11.1.3\n") == "11.1.3"
    with pytest.raises(HostError, match="this is not qemu-storage-daemon"):
        parse_version("nbdkit 1.32.5\n")
