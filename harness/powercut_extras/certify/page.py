# SPDX-License-Identifier: Apache-2.0
"""A certificate as one HTML file: no network, no script, good on a screen and on paper.

It follows from certificate.json and from the recordings below its folder that were kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from powercut.model.verdict import Verdict
from powercut.report import words
from powercut.report.certificates import CERTIFICATE, CERTIFICATE_PAGE
from powercut.report.page.pages import GLOSSARY, page
from powercut.store.files import write_atomic
from powercut_extras.certify.cell_settings import axis_name, value_text
from powercut_extras.certify.certificate import Certificate, CertifiedCell
from powercut_extras.certify.certified import about, in_brief, untested
from powercut_extras.certify.heatmap import HeatMap, lay_out
from powercut_extras.certify.histogram import decades_symbol
from powercut_extras.certify.order import read_certificate
from powercut_extras.certify.page_answer import answer_of, settings_text
from powercut_extras.certify.page_costs import (
    CostView,
    cost_views,
    main_model,
    requests_per_commit,
)
from powercut_extras.certify.page_head import head_of
from powercut_extras.certify.page_losses import kinds_of
from powercut_extras.certify.signature import read_signature

HISTOGRAMS_MAX: Final = 900
"""With more costs than this only those on the main disk model are drawn, so that the file
stays below five megabytes."""


OPEN_MAX: Final = 60
"""With more cells than this their lists and costs are folded."""


@dataclass(frozen=True)
class Group:
    """The cells of one scenario."""

    scenario: str
    anchor: str
    numbers: tuple[int, ...]
    maps: tuple[HeatMap, ...]
    counts: dict[Verdict, int]
    surprises: int
    axes: tuple[str, ...]


def write_certificate_report(directory: Path) -> Path:
    """Writes certificate.html beside the certificate.json in `directory`; returns its path.

    To be called when the certificate has been signed, if it is: the page says whether a
    signature lies beside.  Raises UsageError, DamagedRecording, HostError.
    """
    target = directory / CERTIFICATE_PAGE
    write_atomic(
        target, certificate_html(read_certificate(directory / CERTIFICATE), directory).encode()
    )
    return target


def certificate_html(certificate: Certificate, directory: Path) -> str:
    """The page of `certificate`, which lies with its recordings in `directory`."""
    groups, families = _groups(certificate)
    costs = sum(len(cell.costs) for cell in certificate.cells)
    model = main_model(certificate)
    views = cost_views(certificate, families, drawn=model if costs > HISTOGRAMS_MAX else None)
    kinds = kinds_of(certificate, directory)
    main_costs = {n: one for n, v in views.items() if (one := _on(model, v)) is not None}
    cells = certificate.cells
    return page("certificate.html.j2", "powercut_extras.certify").render(
        certificate=certificate,
        directory=directory,
        groups=groups,
        views=views,
        main_costs=main_costs,
        head=head_of(certificate),
        answer=answer_of(certificate, kinds, main_costs),
        settings_text=settings_text,
        model=model,
        kinds=kinds,
        kind_of={index: kind for kind in kinds for index in kind.members},
        surprises=[
            n
            for n, cell in enumerate(cells)
            if certificate.definition is None and not cell.as_expected
        ],
        too_fast=[n for n, v in views.items() if any(view.too_fast for view in v)],
        totals={verdict: _count(cells, verdict) for verdict in sorted(Verdict, reverse=True)},
        acked=sum(cell.acked for cell in cells),
        cuts=sum(cell.cuts for cell in cells),
        about=about(certificate),
        brief=in_brief(certificate),
        untested=untested(certificate),
        sure=[*words.how_repaired(cells), *words.how_early(cells), *how_sure(cells)],
        controls=_controls(cells),
        signature=read_signature(directory),
        glossary=GLOSSARY,
        decades=Markup(decades_symbol()),
        small=len(cells) <= OPEN_MAX,
        words=words,
        axis_name=axis_name,
        value_text=value_text,
        requests_per_commit=requests_per_commit,
        Verdict=Verdict,
    )


def _on(model: Any, views: Sequence[CostView]) -> CostView | None:
    return next((view for view in views if view.cost.disk is model), None)


def _count(cells: Sequence[CertifiedCell], verdict: Verdict) -> int:
    return sum(cell.verdict is verdict for cell in cells)


def _groups(certificate: Certificate) -> tuple[list[Group], dict[int, str]]:
    """The cells by scenario, in the order of the certificate; and the row of each."""
    by_scenario: dict[str, list[tuple[int, CertifiedCell]]] = {}
    for number, cell in enumerate(certificate.cells):
        by_scenario.setdefault(cell.scenario, []).append((number, cell))
    groups, families = [], dict[int, str]()
    for position, (scenario, members) in enumerate(by_scenario.items(), 1):
        layout = lay_out(members, certificate.axes)
        families.update(layout.families)
        cells = [cell for _, cell in members]
        groups.append(
            Group(
                scenario=scenario,
                anchor=f"s{position}",
                numbers=tuple(number for number, _ in members),
                maps=layout.maps,
                counts={verdict: _count(cells, verdict) for verdict in Verdict},
                surprises=sum(not cell.as_expected for cell in cells),
                axes=layout.axes,
            )
        )
    return groups, families


def how_sure(cells: Sequence[CertifiedCell]) -> list[str]:
    """What the numbers of cuts and of crash states say of the cells that are SAFE."""
    bounds = Counter(
        (cell.loss_probability_upper_95, cell.cuts)
        for cell in cells
        if cell.loss_probability_upper_95 is not None and cell.verdict is Verdict.SAFE
    )
    said = [
        f"{words.count(number, 'SAFE cell')}: the recording is the evidence. By "
        f"{words.count(cuts, 'cut')} each alone, fewer than {words.percent(bound)} of such cuts "
        "lose a record (95 % confidence)."
        for (bound, cuts), number in sorted(bounds.items(), key=lambda item: -item[1])
        if bound is not None
    ]
    safe = [cell for cell in cells if cell.verdict is Verdict.SAFE]
    explored = [cell.coverage for cell in safe if cell.coverage is not None]
    if explored:
        states = sum(coverage.checked + coverage.decided for coverage in explored)
        policies: Counter[str] = Counter()
        for coverage in explored:
            policies.update(coverage.by_policy)
        said.append(
            f"Besides the cuts, {words.count(states, 'crash state')} that the disk was allowed to "
            f"leave were recovered in {words.count(len(explored), 'SAFE cell')} "
            f"({words.by_policy(policies)}): they show that file systems and image formats lead to "
            "the records."
        )
    unexposed = sum(cell.exposure is not None and not cell.exposure.records for cell in safe)
    if unexposed:
        said.append(
            f"In {words.count(unexposed, 'SAFE cell')} the analysis of every request shows that no "
            "record was acknowledged before its bytes were durable, at any instant, not only at "
            "those of the cuts."
        )
    return said


def _controls(cells: Sequence[CertifiedCell]) -> list[tuple[str, str, str, int, int]]:
    """For each kind of control: what had to come out, of how many cells, and how many did."""
    found: Counter[tuple[str, str]] = Counter()
    behaved: Counter[tuple[str, str]] = Counter()
    for cell in cells:
        for control in cell.controls:
            key = (control.kind.value, control.expected.value)
            found[key] += 1
            behaved[key] += control.behaved
    return [
        (kind, expected, _CONTROLS.get(kind, ""), number, behaved[kind, expected])
        for (kind, expected), number in sorted(found.items())
    ]


_CONTROLS: Final = {
    "honest": "a disk that keeps every promise: it must lose nothing",
    "lying-disk": "a disk that drops what it promised to keep: the loss must be seen",
    "no-sync": "a workload that never asks for durability: the loss must be seen",
    "no-flush": "a kernel that sends no flush: the disk's own cache must be lost",
}
