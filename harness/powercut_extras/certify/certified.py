# SPDX-License-Identifier: Apache-2.0
"""What a certificate is about, how sure it is in three lines, and what it leaves out by reason: in
the same words on its page and in a terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from powercut.model.verdict import Verdict
from powercut.model.versions import TESTED
from powercut.report import words
from powercut.scenario.preset import all_presets
from powercut_extras.certify.certificate import Certificate, CertifiedCell, NotTested

_NAMED_MAX: Final = 4


@dataclass(frozen=True)
class Untested:
    """What was not tested for one reason."""

    reason: str
    combinations: int
    items: tuple[NotTested, ...]


def about(certificate: Certificate) -> tuple[str, ...]:
    """Whose machine it is about: what ran, and of which products only the settings did."""
    ran = dict.fromkeys(
        f"{part.name} {part.version}".strip()
        for part in certificate.components
        if part.role in TESTED
    )
    named = _listed([*ran])
    said = [f"About {named}, as they ran here: no other version, and no other host."] if ran else []
    products = dict.fromkeys(
        preset.product
        for preset in all_presets()
        if any(preset.name in _names(cell) for cell in certificate.cells)
    )
    if products:
        named = _listed([*products])
        said.append(f"With the settings of {named}, none of which ran: not about these products.")
    return tuple(said)


def _names(cell: CertifiedCell) -> set[str]:
    """The scenario of a cell, and the words of its name, a preset's remedy by the preset."""
    return {cell.scenario, *(word.partition("/")[0] for word in cell.cell.split())}


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more:,} more" if more > 0 else "")


def in_brief(certificate: Certificate) -> tuple[str, ...]:
    """How sure: what the safe settings rest on, what the controls say, what is left out."""
    return (_evidence(certificate), _controls(certificate), _left_out(certificate))


def _evidence(certificate: Certificate) -> str:
    safe = [cell for cell in certificate.cells if cell.verdict is Verdict.SAFE]
    if not safe:
        return "No setting is SAFE."
    known = [cell.coverage for cell in safe if cell.coverage is not None]
    states = sum(coverage.checked + coverage.decided for coverage in known)
    cuts = words.count(sum(cell.cuts for cell in safe), "power cut")
    looked = f", nor in {words.count(states, 'crash state')} of their recordings" if states else ""
    settings = words.count(len(safe), "SAFE setting")
    return f"{settings}: nothing acknowledged was lost in {cuts}{looked}."


def _controls(certificate: Certificate) -> str:
    controls = [control for cell in certificate.cells for control in cell.controls]
    if not controls:
        return "No controls were run: nothing shows that a loss would have been seen."
    bad = sum(not control.behaved for control in controls)
    if bad:
        return f"{bad:,} of {words.count(len(controls), 'control')} did not behave as expected."
    return f"All {words.count(len(controls), 'control')} behaved as expected: losses are seen."


def _left_out(certificate: Certificate) -> str:
    untested = sum(item.combinations for item in certificate.not_tested)
    if (of := certificate.definition) is not None:
        disks, settings = len(of.disks_left_out), len(of.left_out)
        left = [words.count(disks, "disk")] if disks else []
        left += [words.count(settings, "setting")] if settings else []
        said = f"{' and '.join(left)} left out" if left else "nothing left out"
        return f"Of {of.machine}'s definition {said}; other versions not tested."
    if not untested:
        return "Every combination of these settings was tested; other settings and versions not."
    return f"{words.count(untested, 'combination')} of settings not tested."


def untested(certificate: Certificate) -> tuple[Untested, ...]:
    """What was not tested, by reason, the most first."""
    groups: dict[str, list[NotTested]] = {}
    for item in certificate.not_tested:
        groups.setdefault(item.reason, []).append(item)
    made = [
        Untested(reason, sum(item.combinations for item in items), tuple(items))
        for reason, items in groups.items()
    ]
    return tuple(sorted(made, key=lambda one: -one.combinations))
