# SPDX-License-Identifier: Apache-2.0
"""Certificates, for `verify` and `certify --compare`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from powercut.cli.lookup import certificate_file
from powercut.cli.output import console_beside, write_json_object
from powercut.model.errors import UsageError
from powercut_extras.certify.compare import (
    compare_certificates,
    compare_values,
    got_unknown,
    got_worse,
)
from powercut_extras.certify.comparison import Comparison
from powercut_extras.certify.order import read_certificate
from powercut_extras.certify.terminal import print_comparison
from powercut_extras.certify.verify import examine


def verify_certificate(
    path: Path,
    *,
    deep: bool,
    allow_missing: bool,
    jobs: int | None,
    allowed_signers: Path | None,
    json_file: Path | None,
) -> int:
    """Whether a certificate follows from its evidence, and its signature; 1 if it does not."""
    if not deep and (allow_missing or jobs):
        raise UsageError("--allow-missing and --jobs say nothing without --deep")
    outcome = examine(
        path,
        deep=deep,
        allow_missing=allow_missing,
        jobs=jobs or os.cpu_count() or 1,
        allowed_signers=allowed_signers,
    )
    console = console_beside(json_file)
    for style, mark, lines in (
        ("green", "✓", outcome.checked),
        ("yellow", "?", outcome.unchecked),
        ("red", "✗", outcome.problems),
    ):
        for line in lines:
            console.print(f"[{style}]{mark}[/] ", end="")
            console.print(line, soft_wrap=True, highlight=False, markup=False)
    told = {
        "checked": list(outcome.checked),
        "unchecked": list(outcome.unchecked),
        "problems": list(outcome.problems),
    }
    write_json_object("certificate-verified", told, json_file)
    return 1 if outcome.problems else 0


def compare_sides(sides: tuple[str, str], rest: Sequence[str], json_file: Path | None) -> int:
    """Compares two certificates, or two versions in one; the exit status as of `powercut run`:
    1 if a cell that kept its records lost some, 3 if of one nothing is known any more or none is
    on both sides, else 0."""
    if len(rest) > 1:
        raise UsageError("--compare takes one certificate besides two versions")
    if rest:
        within = read_certificate(certificate_file(Path(rest[0])))
        outcome = compare_values(within, *sides)
    else:
        a, b = (read_certificate(certificate_file(Path(side))) for side in sides)
        outcome = compare_certificates(a, b, sides)
    print_comparison(console_beside(json_file), outcome)
    write_json_object("comparison", _as_json(outcome), json_file)
    if got_worse(outcome):
        return 1
    return 3 if got_unknown(outcome) else 0


def _as_json(outcome: Comparison) -> dict[str, Any]:
    return {
        "names": outcome.names,
        "same": outcome.same,
        "changed": [
            {
                "cell": f"{change.before.scenario}: {change.before.cell}",
                "before": change.before.verdict.name,
                "after": change.after.verdict.name,
            }
            for change in outcome.changed
        ],
        "only": [[f"{cell.scenario}: {cell.cell}" for cell in side] for side in outcome.only],
        "versions": outcome.versions,
    }
