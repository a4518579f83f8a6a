# SPDX-License-Identifier: Apache-2.0
"""Which verdicts changed between two versions: two certificates, cell by cell.

Cells are the same if their settings are, versions aside, and what says nothing of a cut: how many
there were, and which verdict was expected or what was to vouch for it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from powercut.model.errors import UsageError
from powercut.model.verdict import Verdict
from powercut.model.versions import TESTED
from powercut_extras.certify.certificate import Certificate, CertifiedCell
from powercut_extras.certify.comparison import Change, Comparison
from powercut_extras.certify.flat import flat

VERSIONS: Final = ("machine.qemu", "machine.kernel")
"""The settings that say which version a cell ran on."""

_ASIDE: Final = frozenset((*VERSIONS, "expect", "controls", "trials", "deadline"))
"""What may differ between the same cell before and after: whoever learns that a version loses
records and expects it from then on must not thereby hide the change."""


def compare_certificates(a: Certificate, b: Certificate, names: tuple[str, str]) -> Comparison:
    """Two certificates."""
    return _compare((a, a.cells), (b, b.cells), names)


def compare_values(certificate: Certificate, a: str, b: str) -> Comparison:
    """The cells of one certificate that ran on version `a`, and those on `b`.

    Raises UsageError if no axis of the certificate has both.
    """
    for key in VERSIONS:
        values = [str(value) for value in certificate.axes.get(key, ())]
        if a in values and b in values:
            sides = [
                tuple(cell for cell in certificate.cells if str(flat(cell.parameters)[key]) == side)
                for side in (a, b)
            ]
            return _compare((certificate, sides[0]), (certificate, sides[1]), (a, b))
    known = [str(v) for key in VERSIONS for v in certificate.axes.get(key, ())]
    raise UsageError(
        f"no cells of this certificate ran on both {a!r} and {b!r}",
        hint=f"versions in it: {', '.join(known)}" if known else "it has one version only",
    )


def _compare(
    a: tuple[Certificate, Sequence[CertifiedCell]],
    b: tuple[Certificate, Sequence[CertifiedCell]],
    names: tuple[str, str],
) -> Comparison:
    left, right = _by_settings(a[1]), _by_settings(b[1])
    both = [key for key in left if key in right]
    changed = [
        Change(left[key], right[key]) for key in both if left[key].verdict is not right[key].verdict
    ]
    changed.sort(key=lambda change: (change.after.verdict, change.before.verdict), reverse=True)
    return Comparison(
        names=names,
        same=len(both) - len(changed),
        changed=tuple(changed),
        only=(
            tuple(cell for key, cell in left.items() if key not in right),
            tuple(cell for key, cell in right.items() if key not in left),
        ),
        versions=(_versions(*a), _versions(*b)),
    )


def _by_settings(cells: Sequence[CertifiedCell]) -> dict[str, CertifiedCell]:
    """Cells by their settings; of several with the same ones, that with the worst verdict."""
    by_settings: dict[str, CertifiedCell] = {}
    for cell in cells:
        settings: dict[str, Any] = flat(cell.parameters)
        key = json.dumps(
            {name: value for name, value in settings.items() if name not in _ASIDE},
            sort_keys=True,
        )
        if key not in by_settings or cell.verdict > by_settings[key].verdict:
            by_settings[key] = cell
    return by_settings


def _versions(certificate: Certificate, cells: Sequence[CertifiedCell]) -> tuple[str, ...]:
    used = sorted({index for cell in cells for index in cell.components})
    parts = [certificate.components[index] for index in used]
    return tuple(f"{part.role} {part.name} {part.version}" for part in parts if part.role in TESTED)


def got_worse(comparison: Comparison) -> bool:
    """Whether some cell kept its records on the first side and not on the second."""
    return any(
        change.before.verdict < Verdict.INCONCLUSIVE and change.after.verdict is Verdict.LOSSY
        for change in comparison.changed
    )


def got_unknown(comparison: Comparison) -> bool:
    """Whether some cell kept its records on the first side, and on the second less is known of it.

    Where no cell is on both sides, that is so of all.
    """
    return not (comparison.same or comparison.changed) or any(
        change.before.verdict < change.after.verdict <= Verdict.INCONCLUSIVE
        for change in comparison.changed
    )
