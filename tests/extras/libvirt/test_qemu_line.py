# SPDX-License-Identifier: Apache-2.0
"""Command lines of QEMU, read for what matters to their disks."""

from __future__ import annotations

import pytest
from definitions_given import BLOCKDEVS, LINE

from powercut.model.errors import UsageError
from powercut.scenario.likeness import DiskLikeness
from powercut_extras.libvirt.definition import read_kept
from powercut_extras.libvirt.likeness import likeness, likeness_of

SECTIONS = """\
[drive "d"]
  file = "/srv/x.raw"
  format = "raw"
  if = "none"
  cache = "directsync"
[device "v"]
  driver = "virtio-blk-pci"
  drive = "d"
[machine]
  type = "q35"
"""


def how(disk: DiskLikeness) -> tuple[object, ...]:
    return (disk.name, *(disk.settings[key] for key in ("bus", "cache", "aio", "format")))


def left(text: str) -> tuple[list[str], list[str]]:
    found = likeness_of(text, None)
    return [one.what for one in found.left_out], [one.what for one in found.disks_left_out]


def test_drives_become_disks() -> None:
    found = likeness_of(LINE, None)
    assert [how(disk) for disk in found.disks] == [
        ("drive0", "virtio-blk", "unsafe", "threads", "raw"),
        ("drive1", "virtio-blk", "none", "native", "raw"),
    ]
    assert (found.left_out, found.disks_left_out) == ((), ())
    assert found.disks[0].settings["cpus"] == 2


def test_nodes_as_ps_prints_them_become_a_disk() -> None:
    found = likeness_of(BLOCKDEVS, None)
    (disk,) = found.disks
    assert how(disk) == ("virtio-disk0", "virtio-blk", "none", "threads", "qcow2")
    kept = read_kept(str(disk.settings["like"]))
    driver = kept.disk.find("driver")
    assert driver is not None
    assert driver.attrib == {
        "discard": "unmap", "detect_zeroes": "off", "iothread": "1", "queues": "2",
    }  # fmt: skip
    assert (found.machine, kept.machine) == ("db", "pc-q35-7.2")
    assert found.left_out == ()
    quoted = BLOCKDEVS.replace(" {", " '{").replace("} ", "}' ").replace("}\n", "}'\n")
    assert likeness_of(quoted, None) == found


def test_a_file_for_readconfig_says_the_same_in_sections() -> None:
    (disk,) = likeness_of(SECTIONS, None).disks
    assert how(disk) == ("v", "virtio-blk", "directsync", "threads", "raw")


def line(*words: str) -> str:
    return " ".join(("#!/bin/sh\nexec qemu-kvm -m 512", *words, "&\necho started\n"))


ONE = "-drive file=a.raw,if=none,id=d,format=raw"


def test_what_json_says_besides_words_is_read_too() -> None:
    device = '{"driver":"virtio-blk-pci","drive":"d","num-queues":1,"write-cache":false,'
    text = line(ONE, f'-device {device}"iothread-vq-mapping":[{{"iothread":"t"}}]}}')
    found = likeness_of(text, None)
    driver = read_kept(str(found.disks[0].settings["like"])).disk.find("driver")
    assert driver is not None
    assert (driver.get("queues"), found.disks[0].settings["cache"]) == ("1", "writethrough")
    (told,) = found.left_out
    assert "iothread-vq-mapping" in told.what


@pytest.mark.parametrize(
    ("device", "more", "mode"),
    [
        ("virtio-blk-pci,drive=d", "", "writeback"),
        ("virtio-blk-pci,drive=d", ",cache=writethrough", "writethrough"),
        ("virtio-blk-pci,drive=d,write-cache=off", "", "writethrough"),
        ("virtio-blk-pci,drive=d,write-cache=off", ",cache=none", "directsync"),
        ("virtio-blk-pci,drive=d,write-cache=on", ",cache=writethrough", "writeback"),
        ("virtio-blk-pci,drive=d", ",cache.direct=on", "none"),
        ("virtio-blk-pci,drive=d", ",cache.no-flush=on", "unsafe"),
    ],
)
def test_the_cache_is_what_drive_and_device_say_together(device, more, mode) -> None:
    (disk,) = likeness_of(line(f"{ONE}{more}", "-device", device), None).disks
    assert disk.settings["cache"] == mode


@pytest.mark.parametrize(
    ("device", "bus", "board"),
    [
        ("nvme,drive=d,serial=x", "nvme", ""),
        ("ide-hd,drive=d", "ide", ""),
        ("ide-hd,drive=d", "ahci", "-machine q35"),
        ("usb-storage,drive=d", "usb-storage", ""),
        ("scsi-hd,drive=d,bus=s.0", "virtio-scsi", "-device virtio-scsi-pci,id=s"),
    ],
)
def test_the_bus_is_that_of_the_device(device, bus, board) -> None:
    (disk,) = likeness_of(line(board, ONE, "-device", device), None).disks
    assert disk.settings["bus"] == bus


@pytest.mark.parametrize(
    ("words", "told", "missing"),
    [
        (("-global", "virtio-blk-pci.write-cache=off"), "command line: -global", []),
        (("-set", "device.v.write-cache=off"), "command line: -set", []),
        (("-wonder", "blue"), "command line: -wonder=blue", []),
        (("-device", "vfio-pci,host=01:00.0"), "-device vfio-pci", []),
        (("-readconfig", "more.cfg"), "", ["-readconfig"]),
        (('"${disks[@]}"',), "", ["${disks[@]} of the command line"]),
        (("-device", "$DEVICE"), "", ["-device $DEVICE"]),
        (("-sd", "card.img"), "", ["-sd"]),
        (("-usbdevice", "disk:a"), "command line: -usbdevice", []),
        (("-device", "floppy-of-mine,drive=e"), "", ["disk e"]),
        (("-device", "vhost-user-blk-pci,chardev=c,id=u"), "", ["disk u"]),
        (("-drive", "file=b,if=virtio,format=raw,cache=$CACHE,id=e"), "", ["disk e"]),
        (("-drive", "file=b,if=virtio,format=raw,snapshot=on,id=e"), "", ["disk e"]),
        (("-drive", "file=b,if=virtio,format=raw,werror=stop,id=e"), "disk e: werror=stop", []),
        (("-drive", "file=b,if=virtio,id=e"), "disk e: format", []),
        (("-drive", "file=rbd:pool/x,if=virtio,format=raw,id=e"), "disk e: file=rbd:", []),
        (("-drive", "file=b,if=scsi,format=raw,id=e"), "", ["disk e"]),
        (("-drive", "file=b,media=cdrom"), "", []),
        (("-drive", "file=b,if=virtio,format=raw,readonly=on"), "", []),
        (("-drive", "file=code.fd,if=pflash,format=raw,readonly=on"), "", []),
    ],
)
def test_what_is_no_disk_of_ours_is_said(words, told, missing) -> None:
    left_out, disks = left(line(ONE, "-device", "virtio-blk-pci,drive=d", *words))
    assert disks == missing
    assert len(left_out) == bool(told)
    assert all(one.startswith(told) for one in left_out)


def test_blocks_and_processors_are_carried_over() -> None:
    device = "nvme,drive=d,logical_block_size=4096,physical_block_size=4096"
    found = likeness(None, line("-smp sockets=2,cores=3", ONE, "-device", device), None)
    (disk,) = found.disks
    assert disk.settings["cpus"] == 6
    assert [one.what for one in found.left_out if "blockio" in one.what] == [
        "disk d: blockio logical_block_size=4096",
        "disk d: blockio physical_block_size=4096",
    ]
    device = device.replace("nvme", "virtio-blk-pci")
    (disk,) = likeness_of(line(ONE, "-device", device), None).disks
    blocks = read_kept(str(disk.settings["like"])).disk.find("blockio")
    assert blocks is not None
    assert blocks.get("logical_block_size") == "4096"


def test_a_drive_that_says_its_driver_is_a_disk_all_the_same() -> None:
    words = "-drive driver=qcow2,file.driver=file,file.filename=a.img,id=x"
    (disk,) = likeness_of(line(words), None).disks
    assert how(disk) == ("x", "ide", "writeback", "threads", "qcow2")


def test_an_image_without_an_option_is_the_first_disk() -> None:
    (disk,) = likeness_of("qemu-system-x86_64 -m 512 -nographic image.qcow2\n", None).disks
    assert how(disk) == ("hda", "ide", "writeback", "threads", "qcow2")


def test_with_snapshot_no_disk_keeps_anything() -> None:
    with pytest.raises(UsageError, match="all that is written to it is discarded"):
        likeness_of(line(ONE, "-device virtio-blk-pci,drive=d -snapshot"), None)


@pytest.mark.parametrize(
    ("text", "why", "hint"),
    [
        (f"{line(ONE)}{line(ONE)}", "it starts 2 machines", "one"),
        (line("-m 3"), "has no disk", ""),
        (line("-drive 'file=a"), "the command line of QEMU", ""),
        ("type: virtual-machine\nroot:\n  io.cache: unsafe\n", "LXD", "machine.cache"),
        ("Vagrant.configure('2') do |config|\nend\n", "a Vagrantfile", "vagrant-libvirt"),
        ("virt-install --disk cache=none\n", "virt-install", "--print-xml"),
        ("VBoxManage createvm\n", "VirtualBox", "virtualbox-ide"),
        ("hello world\n", "no definition of a machine that is read", ""),
    ],
)
def test_what_is_read_is_listed_where_something_is_not(text, why, hint) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        likeness_of(text, None)
    assert hint in refused.value.hint
