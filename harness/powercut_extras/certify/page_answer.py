# SPDX-License-Identifier: Apache-2.0
"""The first screen of a certificate: which settings may be used, which not, and what to do.

Settings stand for cells.  Those that lose come first, by cause, each with what to change; then
those that are safe, with their cost; those of which nothing is known, or nothing but what cuts
show, are never among the safe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from powercut.model.verdict import Verdict
from powercut.report import words
from powercut.scenario.preset import all_presets
from powercut_extras.certify.cell_settings import axis_name, value_text
from powercut_extras.certify.certificate import Certificate, CertifiedCell
from powercut_extras.certify.known_causes import UNKNOWN, causes_of
from powercut_extras.certify.page_costs import CostView
from powercut_extras.certify.page_losses import Kind

SHOWN_MAX: Final = 5
"""Settings that are listed; the matrix has all of them."""


_OF_THE_TEST: Final = ("cut.", "explore.", "trials", "controls", "deadline", "expect")
"""Settings that say how it was tested, not what."""


@dataclass(frozen=True)
class Unsafe:
    """Settings that lose for one reason; `members` are numbers of cells, the worst first."""

    members: tuple[int, ...]
    why: str
    remedy: str
    kind: int

    @property
    def shown(self) -> tuple[int, ...]:
        """Those that are named."""
        return self.members[:SHOWN_MAX]


@dataclass(frozen=True)
class Answer:
    """What a person may use, and what not."""

    tone: Verdict
    status: str
    beside: str
    unsafe: tuple[Unsafe, ...]
    safe: tuple[int, ...]
    unknown: tuple[int, ...]


def answer_of(
    certificate: Certificate, kinds: Sequence[Kind], costs: Mapping[int, CostView]
) -> Answer:
    """The answer; a loss is never a green line, be it expected or not."""
    cells = certificate.cells
    found = {
        verdict: [n for n, cell in enumerate(cells) if cell.verdict is verdict]
        for verdict in Verdict
    }
    lossy, unknown, safe = (
        found[verdict] for verdict in (Verdict.LOSSY, Verdict.INCONCLUSIVE, Verdict.SAFE)
    )
    survived = found[Verdict.SURVIVED]
    total = words.count(len(cells), "setting")
    if lossy:
        tone = Verdict.LOSSY
        lose, them = ("loses", "it") if len(lossy) == 1 else ("lose", "them")
        status = f"{len(lossy):,} of {total} {lose} acknowledged writes: do not use {them}"
    elif unknown:
        tone = Verdict.INCONCLUSIVE
        status = f"{len(unknown):,} of {total} could not be decided"
    elif survived:
        tone = Verdict.SURVIVED
        status = f"{len(survived):,} of {total} survived, which shows less than SAFE"
    else:
        tone, status = Verdict.SAFE, f"No loss found in {total}"
    if missing := certificate.untested_disks:
        tone = max(tone, Verdict.INCONCLUSIVE)
        status += f"; {', '.join(one.what for one in missing)} not tested"
    return Answer(
        tone=tone,
        status=status,
        beside=_beside(certificate, len(safe), len(survived), len(unknown)),
        unsafe=tuple(
            row for kind in kinds if kind.verdict is Verdict.LOSSY for row in _unsafe(kind, cells)
        ),
        safe=tuple(sorted(safe, key=lambda n: (n not in costs, -_per_s(costs.get(n)), n))),
        unknown=tuple(unknown),
    )


def _per_s(view: CostView | None) -> float:
    return 0.0 if view is None else view.cost.commits_per_s


def _beside(certificate: Certificate, safe: int, survived: int, unknown: int) -> str:
    """The rest of the count, and whether all that was foreseen."""
    odd = sum(not cell.as_expected for cell in certificate.cells)
    parts = [f"{safe:,} safe as tested", f"{unknown:,} undecided"]
    if survived:
        parts.insert(1, f"{survived:,} survived their cuts, which shows less")
    if certificate.definition is not None:
        return ", ".join(parts)  # nobody has said what was expected
    foreseen = (
        "the scenarios expected every verdict"
        if not odd
        else f"{words.count(odd, 'verdict')} the scenarios did not expect"
    )
    return f"{', '.join(parts)}; {foreseen}"


def _unsafe(kind: Kind, cells: Sequence[CertifiedCell]) -> Iterator[Unsafe]:
    """The cells of one kind, those of a product that has a remedy of its own apart."""
    by_product: dict[str, list[int]] = {}
    for number in kind.members:
        by_product.setdefault(_preset_remedy(cells[number]), []).append(number)
    for preset, members in by_product.items():
        cell = cells[members[0]]
        # What was seen may name a cause that the settings alone do not bear out.
        told = f"{cell.cause} {cell.explanation}"
        causes = [cause for cause in causes_of(cell.parameters) if cause.says in told]
        remedy = preset or (causes[0].remedy if causes else "")
        why = f"{causes[0].layer}: {causes[0].says}" if causes else cell.cause or UNKNOWN
        yield Unsafe(tuple(members), why, remedy, kind.number)


def _preset_remedy(cell: CertifiedCell) -> str:
    """What the product that the cell is named after offers; empty if it is named after none."""
    for preset in all_presets():
        if preset.remedy is not None and preset.name in (cell.scenario, *cell.cell.split()):
            return preset.remedy.does
    return ""


def settings_text(cell: CertifiedCell) -> str:
    """The settings that differ from the defaults, as a person reads them."""
    parts = [
        f"{axis_name(path)} {value_text(value)}"
        for path, value in cell.settings.items()
        if not path.startswith(_OF_THE_TEST)
    ]
    return ", ".join(parts) or "all defaults"
