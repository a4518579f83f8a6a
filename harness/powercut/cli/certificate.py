# SPDX-License-Identifier: Apache-2.0
"""`powercut certificate`: shows a certificate, and whether it is what it claims to be."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from powercut.cli.options import FILE, run_check_option
from powercut.cli.output import console_beside
from powercut.model.errors import UsageError


@click.group()
def certificate() -> None:
    """Shows a certificate that `certify` drew up, or verifies it."""


@certificate.command()
@click.argument("file", type=FILE)
def show(file: Path) -> int:
    """Prints the matrix of a certificate, given as its file or folder."""
    from powercut.report.terminal.certify import print_certificate
    from powercut.store.certify_order import read_certificate

    print_certificate(console_beside(), read_certificate(certificate_file(file)))
    return 0


@certificate.command()
@click.argument("file", type=FILE)
@click.option("--deep", is_flag=True, help="Judge every recording again; none may be missing.")
@click.option(
    "--allow-missing", is_flag=True, help="With --deep: accept recordings that were not kept."
)
@click.option("--jobs", type=click.IntRange(1, 256), help="Recordings to judge in parallel.")
@run_check_option
@click.option(
    "--allowed-signers",
    type=FILE,
    metavar="FILE",
    help="Trusted signers, in the format of ssh-keygen(1); without it any key is accepted.",
)
def verify(
    file: Path, deep: bool, allow_missing: bool, jobs: int | None, allowed_signers: Path | None
) -> int:
    """Verifies that a certificate follows from its evidence, and its signature.

    Exit status: 0 it does; 1 something is wrong; 2 there is none.
    """
    import os

    from powercut.certify.verify import examine

    if allow_missing and not deep:
        raise UsageError("--allow-missing says nothing without --deep")
    outcome = examine(
        certificate_file(file),
        deep=deep,
        allow_missing=allow_missing,
        jobs=jobs or os.cpu_count() or 1,
        allowed_signers=allowed_signers,
    )
    console = console_beside()
    for style, mark, lines in (
        ("green", "✓", outcome.checked),
        ("yellow", "?", outcome.unchecked),
        ("red", "✗", outcome.problems),
    ):
        for line in lines:
            console.print(f"[{style}]{mark}[/] ", end="")
            console.print(line, soft_wrap=True, highlight=False, markup=False)
    return 1 if outcome.problems else 0


def certificate_file(path: Path) -> Path:
    """The certificate that `path` means: a file, its folder, or the folder above `latest`."""
    if path.is_dir():
        inner = path / "latest"
        return (inner if inner.is_dir() else path) / "certificate.json"
    return path


def compare_sides(sides: tuple[str, str], rest: Sequence[str]) -> int:
    """Compares two certificates, or two versions in one; the exit status as of `powercut run`:
    1 if a cell that kept its records lost some, 3 if of one nothing is known any more or none is
    on both sides, else 0."""
    from powercut.certify.compare import (
        compare_certificates,
        compare_values,
        got_unknown,
        got_worse,
    )
    from powercut.report.terminal.certify import print_comparison
    from powercut.store.certify_order import read_certificate

    if len(rest) > 1:
        raise UsageError("--compare takes one certificate besides two versions")
    if rest:
        within = read_certificate(certificate_file(Path(rest[0])))
        outcome = compare_values(within, *sides)
    else:
        a, b = (read_certificate(certificate_file(Path(side))) for side in sides)
        outcome = compare_certificates(a, b, sides)
    print_comparison(console_beside(), outcome)
    if got_worse(outcome):
        return 1
    return 3 if got_unknown(outcome) else 0
