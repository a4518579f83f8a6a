# SPDX-License-Identifier: Apache-2.0
"""What this extra registers for others that meet a certificate: powercut.report.certificates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click

from powercut.cli.options import FILE, jobs_option
from powercut.model.errors import PowercutError
from powercut.model.verdict import Verdict
from powercut.report.certificates import (
    CERTIFICATE,
    CellThen,
    Certificates,
    Listed,
    Night,
    versions_of,
)


def _show(path: Path, json_file: Path | None) -> None:
    from powercut.cli.output import console_beside, write_json
    from powercut_extras.certify.order import read_certificate
    from powercut_extras.certify.terminal import print_certificate

    found = read_certificate(path)
    print_certificate(console_beside(json_file), found)
    write_json(found.model_dump_json(indent=1), json_file)


def _page(path: Path) -> str:
    from powercut_extras.certify.order import read_certificate
    from powercut_extras.certify.page import certificate_html

    return certificate_html(read_certificate(path), path.parent)


def _verify(path: Path, json_file: Path | None, **options: Any) -> int:
    from powercut_extras.certify.evidence import verify_certificate

    return verify_certificate(path, json_file=json_file, **options)


def _listed(folder: Path) -> Listed:
    from powercut.report import words
    from powercut_extras.certify.order import CertificateDir, read_certificate

    try:
        if not (folder / CERTIFICATE).is_file():
            order = CertificateDir(folder).read_order()
            runs = [one for name in order.scenarios for one in (folder / "runs" / name).glob("2*")]
            ended = sum((one / "verdict.json").is_file() for one in runs)
            said = f"{ended:,} of {words.count(len(order.scenarios), 'scenario')} done"
            return Listed(order.title, folder.name, said, running=True)
        one = read_certificate(folder / CERTIFICATE)
    except PowercutError as error:
        return Listed(folder.parent.name, folder.name, f"not readable: {error}")
    worst = max((cell.verdict for cell in one.cells), default=Verdict.INCONCLUSIVE)
    said = ", ".join(f"{number} {name}" for name, number in one.verdicts.items() if number)
    return Listed(one.title, one.started, said, worst, one.as_expected)


def _night(path: Path) -> Night:
    from powercut_extras.certify.verify import examine

    examined = examine(path, seals=False)
    certificate = examined.certificate
    return Night(
        directory=path.parent,
        profile=path.parent.parent.name,
        started=certificate.started,
        seconds=certificate.seconds,
        seed=certificate.seed,
        cells={
            (cell.scenario, cell.cell): CellThen(cell.verdict, cell.as_expected, cell.explanation)
            for cell in certificate.cells
        },
        costs={
            (cell.scenario, cell.cell, cost.disk.value): cost.commits_per_s
            for cell in certificate.cells
            for cost in cell.costs
            if cost.commits_per_s > 0
        },
        versions=versions_of(certificate.powercut, certificate.components, certificate.host),
        not_tested=sum(item.combinations for item in certificate.not_tested),
        problems=examined.problems,
        beside=examined.beside,
    )


class OfCertificates:
    """The port."""

    verify_options: Sequence[Callable[[Any], Any]] = (
        click.option(
            "--deep",
            is_flag=True,
            help="Of a certificate: judge every recording again; none may be missing.",
        ),
        click.option(
            "--allow-missing",
            is_flag=True,
            help="With --deep: accept recordings that were not kept.",
        ),
        jobs_option("With --deep: recordings in parallel."),
        click.option(
            "--allowed-signers",
            type=FILE,
            metavar="FILE",
            help="Of a certificate: trusted signers, in the format of ssh-keygen(1); without it "
            "any key is accepted.",
        ),
    )
    show = staticmethod(_show)
    page = staticmethod(_page)
    verify = staticmethod(_verify)
    listed = staticmethod(_listed)
    night = staticmethod(_night)


CERTIFICATES: Final[Certificates] = OfCertificates()
