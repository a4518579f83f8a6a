# SPDX-License-Identifier: Apache-2.0
"""`powercut certify`: which settings keep what was acknowledged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from powercut.cli.options import (
    FILE,
    at_most_option,
    cluster_option,
    confidence_aim,
    confidence_option,
    jobs_option,
    json_option,
    preset_option,
    results_option,
    scenarios_argument,
    seed_option,
    trials_option,
    version_options,
)
from powercut.cli.output import console_beside, write_json
from powercut.cli.scenarios import find_scenarios
from powercut.model.errors import UsageError
from powercut_extras.certify.cost_verb import DISKS
from powercut_extras.certify.domain_verb import DomainChoice, domain_options
from powercut_extras.certify.evidence import compare_sides

if TYPE_CHECKING:
    from rich.console import Console

    from powercut.campaign.run import Keep
    from powercut_extras.certify.certifier import Certified, Request

PROFILES = ("quick", "nightly", "full")


@click.command(
    epilog="SCENARIO is a file, a folder of them, or the name of one in scenarios/. Without any, "
    "and without a preset, the profile `quick` is certified."
)
@scenarios_argument
@preset_option
@version_options
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
    type=click.Choice(DISKS),
    help="Kind of disk to measure costs on; may be repeated.  By default sata-ssd.",
)
@domain_options
@click.option("--profile", type=click.Choice(PROFILES), help="A set of scenarios by name.")
@click.option("--title", "heading", default="", help="Heading of the certificate.")
@click.option("--issuer", default="", help="The person or organisation that issues it.")
@click.option("--contact", default="", help="How to reach the issuer.")
@click.option("--logo", type=FILE, metavar="FILE", help="The issuer's logo: a small PNG or JPEG.")
@seed_option
@trials_option
@confidence_option
@at_most_option
@jobs_option("Trials to run in parallel.")
@cluster_option
@click.option(
    "--keep",
    type=click.Choice(["all", "evidence", "notable", "none"]),
    default="evidence",
    show_default=True,
    help="Recordings to keep: `evidence`, what verdicts rest on, packed; `notable`, of that only "
    "losses and surprises; `all`, unpacked and with measurements; or none.",
)
@results_option
@click.option("--resume", type=FILE, metavar="DIR", help="Resume an interrupted certification.")
@click.option("--sign", "key", type=FILE, metavar="KEY", help="Sign with this SSH private key.")
@json_option("the certificate, or with --compare the comparison")
@click.option(
    "--compare",
    nargs=2,
    metavar="A B",
    help="Certify nothing: say which verdicts changed between two certificates, or between "
    "two versions within the certificate that is given as SCENARIO.",
)
def certify(
    scenarios: Sequence[str],
    presets: Sequence[str],
    qemus: Sequence[str],
    kernels: Sequence[str],
    strategy: str | None,
    no_cost: bool,
    disks: Sequence[str],
    domain: DomainChoice | None,
    profile: str | None,
    heading: str,
    issuer: str,
    contact: str,
    logo: Path | None,
    seed: int | None,
    trials: int | None,
    confidence: float | None,
    at_most: float | None,
    jobs: int | None,
    cluster: str | None,
    keep: str,
    results: Path,
    resume: Path | None,
    key: Path | None,
    json_file: Path | None,
    compare: tuple[str, str] | None,
) -> int:
    """Tells which settings keep acknowledged writes, with evidence, as a certificate."""
    if compare is not None:
        return compare_sides(compare, scenarios, json_file)

    from powercut.campaign.run import Keep
    from powercut.campaign.selection import Selection
    from powercut_extras.certify.request import NOTHING, CertifyOptions, request_of

    request = definition = None
    if domain:
        others = (*scenarios, *presets, profile, resume)
        made, definition = domain.scenario(others, results, json_file)
        scenarios = [made]
    options = CertifyOptions(
        scenarios=tuple(scenarios),
        presets=tuple(presets),
        profile=profile,
        qemu=tuple(qemus),
        kernel=tuple(kernels),
        strategy=strategy,
        seed=seed,
        disks=tuple(disks),
        no_cost=no_cost,
        heading=heading,
        issuer=issuer,
        contact=contact,
        logo=logo,
        domain=domain.argv if domain else (),
    )
    if resume is None:
        selection = Selection((), trials, confidence_aim(confidence, at_most, trials))
        request = replace(request_of(options, selection, _named(scenarios)), definition=definition)
    elif options != NOTHING or (trials, confidence, at_most) != (None,) * 3:
        raise _resumes_with_options()
    console = console_beside(json_file)
    done = _certify(console, request, resume, results, jobs, Keep(keep), cluster)
    return _publish(console, done, key, json_file)


def _named(scenarios: Sequence[str]) -> list[Path]:
    """Their files; `powercut certify quick` is what a person types first."""
    for name in scenarios:
        if name in PROFILES and not Path(name).exists():
            raise UsageError(
                f"{name} is a profile, and no scenario", hint=f"write --profile {name}"
            )
    return find_scenarios(scenarios) if scenarios else []


def _certify(
    console: Console,
    request: Request | None,
    resume: Path | None,
    results: Path,
    jobs: int | None,
    keep: Keep,
    cluster: str | None,
) -> Certified:
    """What `request` asks for; without one, goes on with what is in `resume`."""
    import os

    from powercut.cli.extras import runs_of
    from powercut.cli.interrupt import Resumable
    from powercut_extras.certify.certifier import CertifyRunOptions, resume_certificate
    from powercut_extras.certify.certifier import certify as run
    from powercut_extras.certify.terminal import CertifyView

    with (
        CertifyView(console) as view,
        Resumable("certify", view).heard() as progress,
        runs_of(cluster) as run_of,
    ):
        options = CertifyRunOptions(jobs or os.cpu_count() or 1, keep, progress, run_of)
        if request is not None:
            return run(request, results, options)
        return resume_certificate(_dir(resume), options)


def _resumes_with_options() -> UsageError:
    return UsageError(
        "--resume takes its options from the interrupted run",
        hint="leave out everything that says what to certify",
    )


def _print(console: Console, done: Certified) -> None:
    """The certificate in short, and where it lies."""
    from powercut.report.certificates import CERTIFICATE_PAGE
    from powercut_extras.certify.terminal import print_certificate

    print_certificate(console, done.certificate)
    console.print()
    for name, value in (
        ("page", str(done.directory.path / CERTIFICATE_PAGE)),
        ("certificate", str(done.directory.certificate)),
        ("again", done.certificate.command),
    ):
        console.print(f"{name:>11}: {value}", soft_wrap=True, highlight=False, markup=False)


def _dir(path: Path | None) -> Path:
    assert path is not None
    return path


def _publish(console: Console, done: Certified, key: Path | None, json_file: Path | None) -> int:
    """Signs, writes the reports beside the certificate, prints it in short; the exit status."""
    from powercut.store.files import write_atomic
    from powercut_extras.certify.junit import certificate_junit
    from powercut_extras.certify.page import write_certificate_report
    from powercut_extras.certify.sign import sign

    path = done.directory.path
    if key is not None:
        sign(done.directory.certificate, key)
    write_atomic(path / "junit.xml", certificate_junit(done.certificate))
    write_certificate_report(path)
    _print(console, done)
    write_json(done.certificate.model_dump_json(indent=1), json_file)
    return _status(done)


def _status(done: Certified) -> int:
    """As `powercut run`: 0 all as expected, 1 a verdict differs, 3 one is unknown, or a disk."""
    from powercut.model.verdict import Verdict
    from powercut.store.results import exit_status

    outcomes = [(cell.verdict, cell.as_expected) for cell in done.certificate.cells]
    outcomes += [(Verdict.INCONCLUSIVE, False) for _ in done.certificate.untested_disks]
    return exit_status(outcomes)
