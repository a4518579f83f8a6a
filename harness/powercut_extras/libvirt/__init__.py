# SPDX-License-Identifier: Apache-2.0
"""QEMU as libvirt runs it: a domain made for one trial, on a disk of ours; and somebody's domain,
as libvirt, Proxmox VE, KubeVirt or oVirt define it, read for what matters to its disks.

`domain` is pure: a machine's description, and a definition of somebody's domain that it is to be
like, as libvirt's XML.  `machine` makes that domain and takes it away.  Nothing here touches a
domain that is not ours.
"""
