# SPDX-License-Identifier: Apache-2.0
"""Twenty definitions as they are met in public documentation, read whole: nothing is dropped in
silence.  Each has the settings of one that is there, in words of ours.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from powercut.model.errors import UsageError
from powercut_extras.libvirt.likeness import likeness_of

DISK = "<target dev='{dev}' bus='{bus}'/></disk>"


def domain(*devices: str, more: str = "", kind: str = "kvm") -> str:
    return (
        f"<domain type='{kind}' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>"
        "<name>met</name><os><type arch='x86_64' machine='q35'>hvm</type></os>"
        f"<devices>{''.join(devices)}</devices>{more}</domain>"
    )


def disk(
    driver: str, inside: str = "", *, dev: str = "vda", bus: str = "virtio", of: str = ""
) -> str:
    said = of or "type='file' device='disk'"
    return f"<disk {said}><driver name='qemu' {driver}/>{inside}{DISK.format(dev=dev, bus=bus)}"


VIRTIO_SCSI = "<controller type='scsi' index='0' model='virtio-scsi'/>"
NETWORK = "type='network' device='disk'"
SECRET = "<secret type='ceph' uuid='11111111-2222-3333-4444-555555555555'/>"
RBD = (
    "<source protocol='rbd' name='pool/disk'><host name='10.0.0.5' port='6789'/></source>"
    f"<auth username='cinder'>{SECRET}</auth>"
)


@dataclass(frozen=True)
class Met:
    """A definition: its disks with their caches, what is left out of them, which disks are."""

    text: str
    disks: dict[str, str]
    left_out: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()


def proxmox(*lines: str) -> str:
    return "\n".join(("boot: order=scsi0", "cores: 2", "memory: 4096", "numa: 0", *lines, ""))


def kubevirt(disks: str, volumes: str, *, domain: str = "") -> str:
    return (
        "apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nmetadata: {name: met}\nspec:\n"
        f"  domain: {{{domain}devices: {{disks: [{disks}]}}}}\n  volumes: [{volumes}]\n"
    )


CLAIM = "{{name: {0}, persistentVolumeClaim: {{claimName: {0}}}}}"

DEFINITIONS = {
    "a fork that retries on errors": Met(
        domain(
            disk(
                "type='raw' cache='none' io='native' error_policy='retry' rerror_policy='retry' "
                "retry_interval='2000' retry_timeout='10000'",
                "<backingStore/>",
            )
        ),
        {"vda": "none"},
        (
            "disk vda: driver error_policy=retry",
            "disk vda: driver rerror_policy=retry",
            "disk vda: driver retry_interval=2000",
            "disk vda: driver retry_timeout=10000",
        ),
    ),
    "the same fork's command line": Met(
        "qemu-kvm -drive file=/store/a,format=raw,if=none,id=d0,cache=none,aio=native "
        "-device virtio-scsi-pci,id=scsi0 -device scsi-hd,bus=scsi0.0,channel=0,scsi-id=0,lun=0,"
        "drive=d0,id=s0,write-cache=on,werror=retry,rerror=retry,retry_interval=2000\n",
        {"s0": "none"},
        ("disk s0: werror=retry, rerror=retry", "disk s0: retry_interval=2000"),
    ),
    "a cloud's disk with limits": Met(
        domain(
            VIRTIO_SCSI,
            disk(
                "type='qcow2' cache='directsync' error_policy='enospace' rerror_policy='stop' "
                "discard='unmap'",
                "<iotune><read_iops_sec>1000</read_iops_sec><write_iops_sec>400</write_iops_sec>"
                "</iotune>",
                dev="sda",
                bus="scsi",
            ),
        ),
        {"sda": "directsync"},
        (
            "disk sda: driver error_policy=enospace",
            "disk sda: driver rerror_policy=stop",
            "disk sda: iotune read_iops_sec=1000, iotune write_iops_sec=400",
        ),
    ),
    "an encrypted image whose data lies elsewhere": Met(
        domain(
            disk(
                "type='qcow2' discard_no_unref='on'",
                "<source file='/a.qcow2'><encryption format='luks'/><dataStore type='network'>"
                "<source protocol='rbd' name='p/i'/></dataStore></source>",
            )
        ),
        {"vda": "writeback"},
        (
            "disk vda: driver discard_no_unref=on",
            "disk vda: source encryption format=luks",
            "disk vda: source dataStore type=network, source dataStore source protocol=rbd, "
            "source dataStore source name",
        ),
    ),
    "a volume of Ceph's": Met(
        domain(disk("type='raw' cache='writeback' discard='unmap'", RBD, of=NETWORK)),
        {"vda": "writeback"},
        ("disk vda: source protocol=rbd",),
    ),
    "an I/O thread, and errors that stop": Met(
        domain(
            disk("type='qcow2' cache='none' error_policy='stop' io='threads' iothread='1'"),
            more="<iothreads>1</iothreads>",
        ),
        {"vda": "none"},
        ("disk vda: driver error_policy=stop",),
    ),
    "a USB disk beside a passed-through controller": Met(
        domain(
            disk("type='raw' cache='none' error_policy='report' rerror_policy='report'"),
            disk("type='raw'", dev="sda", bus="usb"),
            "<hostdev mode='subsystem' type='pci' managed='yes'/>",
        ),
        {"vda": "none", "sda": "writeback"},
        ("hostdev",),
    ),
    "an NVMe disk made past libvirt": Met(
        domain(
            disk("type='qcow2'"),
            more="<qemu:commandline><qemu:arg value='-drive'/><qemu:arg value='file=/b,if=none,"
            "id=NVME1'/><qemu:arg value='-device'/><qemu:arg value='nvme,drive=NVME1'/>"
            "</qemu:commandline>",
        ),
        {"vda": "writeback"},
        ("qemu: commandline=-drive -device",),
    ),
    "Vagrant's box over its base image": Met(
        domain(
            disk(
                "type='qcow2' discard='unmap'",
                "<backingStore type='file'><format type='qcow2'/><source file='/b'/>"
                "</backingStore>",
            )
        ),
        {"vda": "writeback"},
        (
            "disk vda: backingStore type=file, backingStore format type=qcow2, "
            + "backingStore source file",
        ),
    ),
    "Proxmox with a graphics card": Met(
        proxmox(
            "args: -set device.hostpci0.addr=02.0 -set device.hostpci0.x-igd-gms=0x2",
            "bios: ovmf",
            "efidisk0: local-lvm:vm-1-disk-0,efitype=4m,size=4M",
            "hostpci0: 0000:00:02.0,legacy-igd=1",
            "hostpci1: 0000:00:1f.3",
            "ide2: local:iso/a.iso,media=cdrom,size=2G",
            "machine: pc-i440fx-8.0",
            "scsi0: local-lvm:vm-1-disk-1,iothread=1,size=128G",
            "scsihw: virtio-scsi-single",
            "usb0: host=3-8",
            "usb1: host=3-3,usb3=1",
            "vga: none",
        ),
        {"scsi0": "none"},
        ("machine: args", "machine: hostpci, usb"),
    ),
    "Proxmox with disks of SATA": Met(
        proxmox(
            "machine: q35",
            "sata0: local:9/vm-9-disk-0.raw,cache=writeback,discard=on,size=32G",
            "smbios1: uuid=11111111-2222-3333-4444-555555555555",
            "vmgenid: 11111111-2222-3333-4444-555555555556",
        ),
        {"sata0": "writeback"},
    ),
    "Proxmox with limits and a folder": Met(
        proxmox(
            "scsi0: ceph:vm-7-disk-0,cache=writeback,iops_rd=2000,iops_wr=500,ssd=1",
            "scsihw: virtio-scsi-pci",
            "virtiofs0: media,cache=always",
            "virtio1: local-zfs:vm-7-disk-1,replicate=0,werror=enospc",
        ),
        {"scsi0": "writeback", "virtio1": "none"},
        (
            "machine: virtiofs",
            "disk scsi0: iops_rd=2000, iops_wr=500",
            "disk virtio1: werror=enospc",
        ),
    ),
    "KubeVirt with the cache in the wrong place": Met(
        kubevirt(
            "{name: os, disk: {bus: virtio}, dedicatedIOThread: true, bootOrder: 1}, "
            "{name: data, disk: {bus: virtio, cache: none, io: native}, dedicatedIOThread: true}, "
            "{name: init, cdrom: {bus: sata}}",
            f"{CLAIM.format('os')}, {CLAIM.format('data')}, {{name: init, cloudInitNoCloud: {{}}}}",
            domain="ioThreadsPolicy: auto, ",
        ),
        {"os": "none", "data": "none"},
        ("disk data: disk cache=none", "disk data: disk io=native"),
    ),
    "KubeVirt with queues in the wrong place": Met(
        kubevirt("{name: data, disk: {bus: virtio, blockMultiQueue: true}}", CLAIM.format("data")),
        {"data": "none"},
        ("disk data: disk blockMultiQueue=True",),
    ),
    "KubeVirt with a container's disk and a shared folder": Met(
        kubevirt(
            "{name: root, disk: {bus: virtio}}, {name: data, disk: {bus: scsi}, cache: writeback}",
            f"{{name: root, containerDisk: {{image: a}}}}, {CLAIM.format('data')}",
        ).replace("disks: [", "filesystems: [{name: logs, virtiofs: {}}], disks: ["),
        {"data": "writeback"},
        ("machine: devices filesystems name=logs",),
        ("disk root",),
    ),
    "KubeVirt with an old field for volumes": Met(
        kubevirt(
            "{name: mydisk, volumeName: myvolume, disk: {bus: virtio}}, "
            "{name: more, disk: {bus: virtio}}",
            f"{CLAIM.format('myvolume')}, {{name: more, emptyDisk: {{capacity: 1Gi}}}}",
        ),
        {"more": "none", "myvolume": "none"},
        (),
        ("disk mydisk",),
    ),
    "oVirt with a shared disk": Met(
        '<ovf:Envelope xmlns:ovf="o"><Section><Disk ovf:diskId="a" ovf:volume-format="RAW" '
        'ovf:volume-type="Preallocated" ovf:disk-interface="VirtIO_SCSI" ovf:shareable="true" '
        'ovf:pass-discard="false" ovf:boot="true" ovf:wipe-after-delete="false" '
        'ovf:disk-alias="quorum" ovf:incremental-backup="false"/></Section>'
        "<Content><Name>met</Name></Content></ovf:Envelope>",
        {"quorum": "none"},
        ("disk quorum: shareable=true",),
    ),
    "macOS in QEMU": Met(
        "#!/usr/bin/env bash\nargs=1\nqemu-system-x86_64 -enable-kvm -m 4096 -machine q35 -smp 4 "
        "-device ich9-ahci,id=sata -drive id=Boot,if=none,snapshot=on,format=qcow2,file=b.qcow2 "
        "-device ide-hd,bus=sata.2,drive=Boot -drive id=Mac,if=none,file=mac.img,format=qcow2 "
        "-device ide-hd,bus=sata.4,drive=Mac -drive if=pflash,format=raw,readonly=on,file=c.fd\n",
        {"mac": "writeback"},
        (),
        ("disk Boot",),
    ),
    "a unit with a throttled NVMe disk": Met(
        "[Service]\nExecStart=/usr/bin/qemu-system-x86_64 -name nas -nodefaults \\\n"
        "  -drive file=/dev/sdb,format=raw,if=none,id=n0,cache.direct=on,"
        "throttling.iops-total=900 \\\n"
        "  -device nvme,drive=n0,serial=x -global kvm-pit.lost_tick_policy=discard\n"
        "Restart=always\n",
        {"n0": "none"},
        (
            "command line: -global=kvm-pit.lost_tick_policy=discard",
            "disk n0: throttling.iops-total=900",
        ),
    ),
    "a script with variables and a client": Met(
        "qemu-kvm -drive file=nbd://10.0.0.9/x,if=virtio,format=raw,id=far "
        "-drive file=$IMAGE,if=virtio,format=raw,cache=none,id=own "
        "-drive file=/a,if=virtio,format=raw,aio=$AIO,id=none -set device.x.y=z\n",
        {"far": "writeback", "own": "none"},
        ("command line: -set=device.x.y=z", "disk far: file=nbd:"),
        ("disk none",),
    ),
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_nothing_is_dropped_in_silence(name: str) -> None:
    met = DEFINITIONS[name]
    found = likeness_of(met.text, None)
    assert {one.name: str(one.settings["cache"]) for one in found.disks} == met.disks
    assert tuple(one.what for one in found.left_out) == met.left_out
    assert tuple(one.what for one in found.disks_left_out) == met.missing
    assert all(one.why for one in (*found.left_out, *found.disks_left_out))


def test_there_are_twenty() -> None:
    assert len(DEFINITIONS) == 20


@pytest.mark.parametrize("kind", ["VirtualMachinePool", "DataVolume"])
def test_another_kind_of_kubevirts_is_refused_by_its_name(kind: str) -> None:
    text = kubevirt("", "").replace("VirtualMachineInstance", kind)
    with pytest.raises(UsageError, match=kind):
        likeness_of(text, None)
