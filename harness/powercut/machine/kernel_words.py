# SPDX-License-Identifier: Apache-2.0
"""The command line of a guest's kernel, whatever starts the guest."""

from __future__ import annotations

from collections.abc import Iterable

from powercut.model.machine import Bus


def guest_words(
    bus: Bus,
    *beside: Bus,
    emulated: bool,
    acpi: bool = False,
    cpus: int = 1,
    hotplug: bool = False,
    tsc_khz: int | None = None,
    added: Iterable[str] = (),
) -> str:
    """What a kernel is told whose disk under test is on `bus`, with the words `added` at the end;
    other disks are on the buses `beside`.

    `emulated`: guests run by TCG, and without ACPI unless the board has it (`acpi`) or they have
    several processors (`cpus`); with `hotplug` the disk on `bus` is not there yet.  `tsc_khz` is
    the frequency of the host's time-stamp counter.
    """
    # Without ACPI a guest boots in two thirds of the time under TCG and works as fast; it
    # then has no APIC for message-signalled interrupts.  With KVM it would pay.
    # Linux finds processors but the first by a table of ACPI, the MADT, and an NVDIMM by the NFIT;
    # on a board `pc` ACPI says, too, that a PCI function was plugged in.  QEMU's NVMe disk holds
    # an interrupt line up when it has nothing to say, until Linux takes the line away ("nobody
    # cared"): then each commit of several writes waits for a timer, 0.4 s.  Its messages do not
    # have that.
    buses = (bus, *beside)
    modules = ",".join(dict.fromkeys(one.modules for one in buses if one.modules))
    needed = cpus > 1 or Bus.NVME in buses or (hotplug and bus.is_pci_function)
    without_acpi = () if acpi or needed or Bus.NVDIMM in buses else ("acpi=off",)
    without_messages = () if needed else ("pci=nomsi",)
    words = [
        "quiet",
        "loglevel=4",  # errors and what is worse: they go to the console, one exit a byte
        "earlyprintk=ttyS0,115200,keep",  # from the first instruction, and without the 8250 driver
        "8250.nr_uarts=0",  # whose probing takes longer than all else
        "panic=-1",
        "cryptomgr.notests",
        *((*without_acpi, *without_messages, "no_timer_check") if emulated else ()),
        *(() if hotplug else (f"powercut.disk={bus.device}",)),
        *((f"powercut.load={modules}",) if modules else ()),
        *(("tsc=reliable", f"tsc_early_khz={tsc_khz}") if tsc_khz else ()),
        *added,
    ]
    return " ".join(words)
