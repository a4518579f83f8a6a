# SPDX-License-Identifier: Apache-2.0
"""`powercut certify` and `powercut certificate`: which settings keep what was acknowledged.

Like powercut.cli.main they parse, call and print; whatever takes time to import is imported by the
command that needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli import cost as cli_cost
from powercut.cli import presets as cli_presets
from powercut.model.errors import UsageError
from powercut.paths import RESULTS

if TYPE_CHECKING:
    from rich.console import Console

    from powercut.campaign.resume import Selection
    from powercut.certify.certifier import Certified

FILE = click.Path(path_type=Path)
PROFILES = ("quick", "nightly", "full")
_CHANCE = click.FloatRange(0, 1, min_open=True, max_open=True)


@click.command(
    epilog="SCENARIO is a file, a folder of them, or the name of one in scenarios/. Without any, "
    "and without a preset, the profile `quick` is certified."
)
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")
@cli_presets.OPTION
@click.option(
    "--qemu",
    multiple=True,
    metavar="X",
    help="A QEMU to run on: `host`, a Debian suite, or a path; several become an axis.",
)
@click.option(
    "--kernel",
    multiple=True,
    metavar="Y",
    help="A kernel for the guest: `guest`, a Debian suite, or a path; several become an axis.",
)
@click.option(
    "--strategy",
    type=click.Choice(["product", "pairwise"]),
    help="How combinations become cells, instead of what the scenarios say.",
)
@click.option("--no-cost", is_flag=True, help="Do not measure what commits send and cost.")
@click.option(
    "--disk",
    "disks",
    multiple=True,
    type=click.Choice(cli_cost.DISKS),
    help="A kind of disk on which the cost is measured; may be repeated.  By default sata-ssd.",
)
@click.option("--profile", type=click.Choice(PROFILES), help="A set of scenarios by name.")
@click.option("--seed", type=click.IntRange(0, 2**63 - 1), help="Root of every random choice.")
@click.option(
    "--trials", type=click.IntRange(1, 1_000_000), help="Cuts of each cell, instead of its own."
)
@click.option(
    "--confidence",
    type=_CHANCE,
    metavar="P",
    help="Cut cells that should be SAFE as often as it takes to be so sure, such as 0.999.",
)
@click.option(
    "--at-most",
    type=_CHANCE,
    metavar="P",
    help="The chance of a loss to be sure to stay below; by default 0.01.",
)
@click.option("--jobs", type=click.IntRange(1, 256), help="Trials at the same time.")
@click.option(
    "--keep",
    type=click.Choice(["all", "notable", "none"]),
    default="notable",
    show_default=True,
    help="Recordings that stay: of what was judged, all, what was not simply well, or none.",
)
@click.option("--results", type=FILE, default=RESULTS, help="Where results are kept.")
@click.option("--resume", type=FILE, metavar="DIR", help="Go on with one that was interrupted.")
@click.option("--sign", "key", type=FILE, metavar="KEY", help="Sign with this key of ssh-keygen.")
@click.option(
    "--compare",
    nargs=2,
    metavar="A B",
    help="Certify nothing: say which promises changed hands between two certificates, or between "
    "two versions within the certificate that is given as SCENARIO.",
)
def certify(
    scenarios: Sequence[str],
    presets: Sequence[str],
    qemu: Sequence[str],
    kernel: Sequence[str],
    strategy: str | None,
    no_cost: bool,
    disks: Sequence[str],
    profile: str | None,
    seed: int | None,
    trials: int | None,
    confidence: float | None,
    at_most: float | None,
    jobs: int | None,
    keep: str,
    results: Path,
    resume: Path | None,
    key: Path | None,
    compare: tuple[str, str] | None,
) -> int:
    """Tells which settings keep acknowledged writes, with evidence, as a certificate."""
    import os

    from powercut.cli.main import find_scenarios

    if compare is not None:
        return _compare(compare, scenarios)

    from powercut.campaign.keep import Keep
    from powercut.certify.certifier import CertifyWays, resume_certificate
    from powercut.certify.certifier import certify as run
    from powercut.certify.request import NOTHING, Asked, request_of
    from powercut.report.terminal.certify import CertifyView, print_certificate

    request = None
    asked = Asked(
        tuple(scenarios),
        tuple(presets),
        profile,
        tuple(qemu),
        tuple(kernel),
        strategy,
        seed,
        tuple(disks),
        no_cost,
    )
    if resume is None:
        named = find_scenarios(scenarios) if scenarios else []
        request = request_of(asked, _selection(trials, confidence, at_most), named)
    elif asked != NOTHING or (trials, confidence, at_most) != (None,) * 3:
        raise UsageError(
            "--resume goes on with what was asked for then",
            hint="leave everything out that says what to certify",
        )
    console = _console()
    with CertifyView(console) as view:
        ways = CertifyWays(jobs or os.cpu_count() or 1, Keep(keep), view)
        done = run(request, results, ways) if request else resume_certificate(_dir(resume), ways)
    _publish(done, key)
    print_certificate(console, done.certificate)
    console.print()
    for name, value in (
        ("certificate", str(done.directory.certificate)),
        ("again", done.certificate.command),
    ):
        console.print(f"{name:>11}: {value}", soft_wrap=True, highlight=False, markup=False)
    return _status(done)


def _dir(path: Path | None) -> Path:
    assert path is not None
    return path


def _selection(trials: int | None, confidence: float | None, at_most: float | None) -> Selection:
    from powercut.campaign.confidence import AT_MOST, Aim
    from powercut.campaign.resume import Selection

    if confidence is None and at_most is not None:
        raise UsageError("--at-most says nothing without --confidence")
    if confidence is not None and trials is not None:
        raise UsageError("--confidence and --trials both say how many: give one of them")
    aim = None if confidence is None else Aim(confidence, AT_MOST if at_most is None else at_most)
    return Selection((), trials, aim)


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr)


def _publish(done: Certified, key: Path | None) -> None:
    """Signs, and writes the reports beside the certificate."""
    from powercut.certify.sign import sign
    from powercut.report.certify_junit import certificate_junit
    from powercut.report.page.certificate import write_certificate_report
    from powercut.store.files import write_atomic

    path = done.directory.path
    if key is not None:
        sign(done.directory.certificate, key)
    write_atomic(path / "junit.xml", certificate_junit(done.certificate))
    write_certificate_report(path)


def _status(done: Certified) -> int:
    """As `powercut run`: 0 all as expected, 1 a verdict differs, 3 one is unknown."""
    from powercut.model.verdict import Verdict

    cells = done.certificate.cells
    if any(not cell.as_expected and cell.verdict is not Verdict.INCONCLUSIVE for cell in cells):
        return 1
    return 0 if all(cell.as_expected for cell in cells) else 3


@click.group()
def certificate() -> None:
    """What `certify` drew up: shows it, and finds out whether it is what it claims to be."""


@certificate.command()
@click.argument("file", type=FILE)
def show(file: Path) -> int:
    """Prints the matrix of a certificate, given as its file or folder."""
    from powercut.report.terminal.certify import print_certificate
    from powercut.store.certify_order import read_certificate

    print_certificate(_console(), read_certificate(_file(file)))
    return 0


@certificate.command()
@click.argument("file", type=FILE)
@click.option("--deep", is_flag=True, help="Judge every recording again that was kept.")
@click.option(
    "--allowed-signers",
    type=FILE,
    metavar="FILE",
    help="Whom to trust, as ssh-keygen(1) has it; without it any key will do.",
)
def verify(file: Path, deep: bool, allowed_signers: Path | None) -> int:
    """Whether a certificate follows from its evidence, and its signature fits.

    Exit status: 0 it does; 1 something is wrong; 2 there is none.
    """
    from powercut.certify.verify import examine

    outcome = examine(_file(file), deep=deep, allowed_signers=allowed_signers)
    console = _console()
    for style, mark, lines in (
        ("green", "✓", outcome.checked),
        ("yellow", "?", outcome.unchecked),
        ("red", "✗", outcome.problems),
    ):
        for line in lines:
            console.print(f"[{style}]{mark}[/] ", end="")
            console.print(line, soft_wrap=True, highlight=False, markup=False)
    return 1 if outcome.problems else 0


def _file(path: Path) -> Path:
    """The certificate that `path` means: a file, its folder, or the folder above `latest`."""
    if path.is_dir():
        inner = path / "latest"
        return (inner if inner.is_dir() else path) / "certificate.json"
    return path


def _compare(sides: tuple[str, str], rest: Sequence[str]) -> int:
    """As `powercut run`: 1 if a cell that kept its records lost some, 3 if of one nothing is
    known any more or none is on both sides, else 0."""
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
        within = read_certificate(_file(Path(rest[0])))
        outcome = compare_values(within, *sides)
    else:
        a, b = (read_certificate(_file(Path(side))) for side in sides)
        outcome = compare_certificates(a, b, sides)
    print_comparison(_console(), outcome)
    if got_worse(outcome):
        return 1
    return 3 if got_unknown(outcome) else 0


COMMANDS = (certify, certificate)
