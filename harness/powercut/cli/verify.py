# SPDX-License-Identifier: Apache-2.0
"""`powercut verify`: judges a result, recording, bundle or certificate again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from powercut.cli.capture import verify_capture
from powercut.cli.export import say_state
from powercut.cli.extras import foreign_logs, with_options
from powercut.cli.lookup import Evidence, certificate_file, evidence_of, find_result
from powercut.cli.options import (
    EVIDENCE_HELP,
    evidence_argument,
    json_option,
    refuse_others,
    run_check_option,
)
from powercut.cli.output import TROUBLE, Speaker, console_beside, write_json
from powercut.report.certificates import certificates

if TYPE_CHECKING:
    from powercut.campaign.bundle import BundleVerdict

_WHOSE_WORD: Final = "The bundle is its maker's word: its seal shows that nothing changed since."


@click.command(epilog=EVIDENCE_HELP)
@evidence_argument
@with_options(certificates, "verify_options")
@run_check_option
@json_option("the results")
def verify(
    evidence: Path,
    json_file: Path | None,
    **of_a_certificate: object,
) -> int:
    """Judges a result, recording or bundle again, offline, from what was recorded alone.

    Of a certificate: whether it follows from its evidence, and who signed it.

    Exit status: as when it was made; of a certificate 0 it follows, 1 something is wrong.
    """
    kind = evidence_of(evidence)
    if kind is Evidence.CERTIFICATE:
        return certificates().verify(certificate_file(evidence), json_file, **of_a_certificate)
    refuse_others(("json_file",), f"a {kind.name.lower()}", hint="leave it out")
    if kind is Evidence.CAPTURE:
        return verify_capture(evidence, json_file)
    if kind is Evidence.BUNDLE:
        return _verify_bundle(evidence, json_file)
    if kind is Evidence.IMPORT:
        return foreign_logs().verify(evidence, json_file=json_file)
    return _verify_result(evidence, json_file)


def _verify_result(evidence: Path, json_file: Path | None) -> int:
    from powercut.campaign.verify import verify as judge_again
    from powercut.recording.consent import foreign_commands, not_repeated
    from powercut.report.terminal.progress import ProgressView
    from powercut.report.terminal.table import print_run
    from powercut.store.results import CampaignOutcome

    console, say = console_beside(json_file), Speaker(json_file)
    found = find_result(evidence)
    with ProgressView(console) as view:
        result = judge_again(found.path, on_event=view)
    print_run(console, result)
    untried = not_repeated(foreign_commands(found.trials()))
    for line in untried:
        say(f"not repeated: {line}")
    outcome = CampaignOutcome(runs=(result,))
    write_json(outcome.model_dump_json(indent=1), json_file)
    return outcome.exit_status or (TROUBLE if untried else 0)


def _verify_bundle(path: Path, json_file: Path | None) -> int:
    from powercut.campaign.bundle import unpacked, verify_unpacked
    from powercut.campaign.bundle_file import CAPTURE

    with unpacked(path) as (manifest, root):
        if manifest.kind == CAPTURE:
            status = verify_capture(root, json_file)
        else:
            status = _print_judged(verify_unpacked(path, manifest, root), json_file)
    Speaker(json_file)(_WHOSE_WORD)
    return status


def _print_judged(judged: BundleVerdict, json_file: Path | None) -> int:
    from powercut.report.terminal.table import print_run

    say = Speaker(json_file)
    print_run(console_beside(json_file), judged.run)
    if judged.state is not None:
        say_state(judged.state, say)
    for line in judged.differences:
        say(f"DIFFERS: {line}")
    for line in judged.untried:
        say(f"not repeated: {line}")
    if not judged.differences and not judged.untried:
        say("Everything in the bundle is judged as when it was made.")
    write_json(judged.model_dump_json(indent=1), json_file)
    return judged.exit_status
