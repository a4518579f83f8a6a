# SPDX-License-Identifier: Apache-2.0
"""docs/definitions.md: what becomes of each word of a definition, made of the tables that read it.

.venv/bin/python tests/support/definitions_page.py     writes it
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from powercut.paths import ROOT
from powercut_extras.libvirt import elements, kubevirt, ovirt, proxmox, qemu_line
from powercut_extras.libvirt.meaning import Fate, Meaning, Table

PAGE: Final = ROOT / "docs/definitions.md"

_FIRST: Final = "\n## libvirt\n"
"""What stands before it is written by hand."""

_FORMATS: Final = (
    (
        "libvirt",
        "The domain's XML (`virsh dumpxml`). Domains of other hypervisors than QEMU are "
        "refused, with the preset that is near.",
        {**elements.DISK, **elements.CONTROLLER, **elements.NAMESPACE},
    ),
    ("Proxmox VE", "`qm config VMID`.", {**proxmox.DISK, **proxmox.MACHINE}),
    (
        "KubeVirt",
        "A VirtualMachine or VirtualMachineInstance (`kubectl get vmi NAME -o yaml`), or a "
        "List with one.",
        {**kubevirt.DISK, **kubevirt.DOMAIN},
    ),
    ("oVirt", "An OVF. Attributes of a `Disk`.", ovirt.DISK),
    (
        "A command line of QEMU",
        "From `ps`, a shell script or a unit file; or a file for -readconfig. Nothing is expanded: "
        "a disk of which a word is a variable of the shell is not tested.",
        {**qemu_line.DRIVE, **qemu_line.DEVICE, **qemu_line.OPTION},
    ),
)


def page() -> str:
    """Its text."""
    return "".join(_parts())


def _parts() -> Iterator[str]:
    yield PAGE.read_text().partition(_FIRST)[0]
    for name, about, table in _FORMATS:
        yield f"\n## {name}\n\n{about}\n\n"
        yield "| what becomes of it | why | words |\n| --- | --- | --- |\n"
        for meaning, words in _by_meaning(table).items():
            usual = f" ({', '.join(meaning.usual)})" if meaning.usual else ""
            shown = ", ".join(f"`{word}`" for word in words)
            yield f"| {meaning.fate.value} | {meaning.why or 'as it is'}{usual} | {shown} |\n"


def _by_meaning(table: Table) -> Mapping[Meaning, list[str]]:
    found: dict[Meaning, list[str]] = {}
    for path, meaning in sorted(table.items(), key=lambda item: list(Fate).index(item[1].fate)):
        found.setdefault(meaning, []).append(path)
    return found


if __name__ == "__main__":
    Path(PAGE).write_text(page())
