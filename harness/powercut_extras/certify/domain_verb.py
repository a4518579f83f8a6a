# SPDX-License-Identifier: Apache-2.0
"""The options that name a domain of libvirt's, and the scenario that is made of it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from powercut.cli.options import FILE
from powercut.cli.output import console_beside
from powercut.model.errors import UsageError
from powercut.model.named_path import openable

if TYPE_CHECKING:
    from powercut.scenario.likeness import LeftOut
    from powercut_extras.certify.certificate import Definition, LeftOutOf

_Returned = TypeVar("_Returned")


@dataclass(frozen=True)
class DomainChoice:
    """A domain by its name or by a file with its definition, and libvirt's connection."""

    name: str | None
    definition: Path | None
    connect: str | None

    def scenario(
        self, others: Iterable[object], results: Path, json_file: Path | None
    ) -> tuple[str, Definition]:
        """Writes the scenario of the domain's disks, and says in what its machines differ.

        `others` are what else was asked for, beside which there can be no domain.
        """
        from powercut.store.files import write_atomic
        from powercut_extras.certify.certificate import Definition
        from powercut_extras.certify.likeness import left_out_of, likeness_here, scenario_like

        if any(others):
            raise UsageError("--domain says what is certified: leave scenarios and presets out")
        if self.name and self.definition:
            raise UsageError("a domain is given by --domain or by --domain-xml, not by both")
        likeness = likeness_here(self.name, self._text(), self.connect)
        scenario = scenario_like(likeness)
        path = results / "domains" / f"{likeness.slug}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, scenario.encode())
        console = console_beside(json_file)
        disks = ", ".join(disk.name for disk in likeness.disks)
        console.print(f"{likeness.machine}: {disks}, as scenario {path}", markup=False)
        for one in likeness.disks_left_out:
            console.print(f"  NOT TESTED: {one.what}: {one.why}", style="red", markup=False)
        left_out = left_out_of(likeness)
        for one in left_out:
            console.print(f"  left out: {one.what} ({one.why})", style="yellow", markup=False)
        for difference in likeness.differs:
            console.print(f"  differs: {difference}", markup=False)
        return str(path), Definition(
            machine=likeness.machine,
            disks=tuple(disk.name for disk in likeness.disks),
            disks_left_out=_told(likeness.disks_left_out),
            left_out=_told(left_out),
            differs=likeness.differs,
        )

    @property
    def argv(self) -> tuple[str, ...]:
        """The options that name it again."""
        given = {
            "--domain": self.name,
            "--domain-xml": self.definition and str(self.definition),
            "--connect": self.connect,
        }
        return tuple(word for option, value in given.items() if value for word in (option, value))

    def _text(self) -> str | None:
        try:
            return (
                openable(self.definition).read_text(encoding="utf-8") if self.definition else None
            )
        except (OSError, UnicodeError) as error:
            raise UsageError(f"{self.definition}: {error}") from None


def _told(left_out: Iterable[LeftOut]) -> tuple[LeftOutOf, ...]:
    from powercut_extras.certify.certificate import LeftOutOf

    return tuple(LeftOutOf(what=one.what, why=one.why) for one in left_out)


def domain_options(command: Callable[..., _Returned]) -> Callable[..., _Returned]:
    """Adds the options; the command gets them as `domain`, None without any."""

    @click.option("--domain", metavar="NAME", help="Certify the disks of this libvirt domain.")
    @click.option(
        "--domain-xml",
        type=FILE,
        metavar="FILE",
        help="The same, by a domain's XML, by a definition of Proxmox VE (qm config), KubeVirt "
        "(YAML) or oVirt (OVF), or by a command line of QEMU's.",
    )
    @click.option("--connect", metavar="URI", help="URI of libvirt's connection, for --domain.")
    @functools.wraps(command)
    def with_domain(
        *arguments: object,
        domain: str | None,
        domain_xml: Path | None,
        connect: str | None,
        **options: object,
    ) -> _Returned:
        chosen = DomainChoice(domain, domain_xml, connect) if domain or domain_xml else None
        return command(*arguments, domain=chosen, **options)

    return with_domain
