# SPDX-License-Identifier: Apache-2.0
"""Definitions of machines that several tests read."""

from __future__ import annotations

CONF = """\
#a database
boot: order=scsi0
cores: 2
cpu: host
machine: pc-q35-8.1+pve0
memory: 4096
name: shop-db
net0: virtio=BC:24:11:00:00:01,bridge=vmbr0
ide2: local:iso/debian.iso,media=cdrom,size=600M
scsi0: local-lvm:vm-100-disk-0,discard=on,iothread=1,size=32G,ssd=1
scsihw: virtio-scsi-single
sockets: 2
virtio1: local:100/vm-100-disk-1.qcow2,cache=writeback,aio=native,iothread=1,size=8G

[before-upgrade]
scsi0: local-lvm:vm-100-disk-0,cache=unsafe
"""

LINE = """\
qemu-system-x86_64 -machine type=pc,accel=kvm -cpu host -smp 2 -m 2048 \\
  -drive file=n/system.img,if=virtio,format=raw,cache=unsafe \\
  -drive file=n/data.img,if=virtio,format=raw,cache=none,aio=native \\
  -display none -daemonize -pidfile n/qemu.pid
"""

BLOCKDEVS = (
    "/usr/bin/qemu-system-x86_64 -name guest=db,debug-threads=on -S -machine pc-q35-7.2,usb=off "
    '-accel kvm -object {"qom-type":"iothread","id":"iothread1"} '
    '-blockdev {"driver":"file","filename":"/srv/a.qcow2","node-name":"s1","auto-read-only":true} '
    '-blockdev {"node-name":"f1","read-only":false,"discard":"unmap",'
    '"cache":{"direct":true,"no-flush":false},"driver":"qcow2","file":"s1"} '
    '-device {"driver":"virtio-blk-pci","drive":"f1","id":"virtio-disk0","write-cache":"on",'
    '"iothread":"iothread1","num-queues":2} -device {"driver":"usb-tablet","id":"x"}\n'
)
