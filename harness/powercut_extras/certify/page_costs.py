# SPDX-License-Identifier: Apache-2.0
"""What safety costs: commits a second of each cell, beside those of the safest one like it.

The *safest* cell of a row is the SAFE one that trusts the fewest caches: directsync before
writethrough before none before writeback; of equals, the slowest.  Ratios are to it, on the
same disk model.  A single stream that commits faster than the modelled medium can is a
symptom: the acknowledgement did not wait for the medium.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from powercut.model.verdict import Verdict
from powercut.scenario.choices import DiskModel
from powercut_extras.certify.certificate import Certificate, CertifiedCell
from powercut_extras.certify.histogram import histogram_svg
from powercut_extras.certify.measurement import Cost

_PARTS: Final = {"cache", "write_cache", "direct", "no_flush"}
"""The settings of the machine that make up its treatment of a disk."""

_PLAIN: Final = (DiskModel.NONE, DiskModel.SATA_SSD)


@dataclass(frozen=True)
class CostView:
    """What commits cost a cell on one disk model; `ratio` is None where there is no safest."""

    cost: Cost
    ratio: float | None
    reference: int | None
    too_fast: bool
    svg: str

    @property
    def model(self) -> str:
        """The disk model by name."""
        return self.cost.disk.value


def main_model(certificate: Certificate) -> DiskModel | None:
    """The disk model of which most cells have figures, a real medium before none at all."""
    disks = Counter(cost.disk for cell in certificate.cells for cost in cell.costs)
    order = (DiskModel.NONE, *(m for m in DiskModel if m not in _PLAIN), DiskModel.SATA_SSD)
    return max(
        disks, key=lambda m: (m is not DiskModel.NONE, disks[m], order.index(m)), default=None
    )


def requests_per_commit(cell: CertifiedCell) -> float | None:
    """Requests that the disk saw for a commit; None if they were not counted."""
    wire = cell.wire
    if wire is None or not wire.commits:
        return None
    return (wire.disk.writes + wire.disk.flushes) / wire.commits


def cost_views(
    certificate: Certificate, families: Mapping[int, str], *, drawn: DiskModel | None = None
) -> dict[int, tuple[CostView, ...]]:
    """The views of each cell that has costs, by its number.

    `families` names the row that a cell shares with others; cells without one are compared
    with those that differ from them in the cache mode alone.  No cell is compared with one of
    another file system, bus, image format or way of writing but for the sync.  With `drawn`, only
    the costs on that model get a histogram.
    """
    row = {
        number: repr((families.get(number) or _but_cache(cell), _like(cell)))
        for number, cell in enumerate(certificate.cells)
    }
    safest: dict[tuple[str, str, DiskModel], tuple[int, float]] = {}
    for number, cell in enumerate(certificate.cells):
        if cell.verdict is not Verdict.SAFE:
            continue
        for cost in cell.costs:
            key = (cell.scenario, row[number], cost.disk)
            best = safest.get(key)
            if best is None or _rank(cell, cost.commits_per_s) < _rank(
                certificate.cells[best[0]], best[1]
            ):
                safest[key] = (number, cost.commits_per_s)
    return {
        number: tuple(
            _view(cost, safest.get((cell.scenario, row[number], cost.disk)), drawn)
            for cost in cell.costs
        )
        for number, cell in enumerate(certificate.cells)
        if cell.costs
    }


def _rank(cell: CertifiedCell, per_s: float) -> tuple[bool, bool, bool, float]:
    """The fewer of the caches is trusted, the lower; of equals, the slower."""
    host = cell.parameters.machine.host_cache
    return (host.no_flush, host.write_cache, not host.direct, per_s)


def _but_cache(cell: CertifiedCell) -> str:
    settings = cell.parameters.model_dump(
        mode="json", exclude={"expect": True, "trials": True, "machine": _PARTS}
    )
    return repr(settings)


def _like(cell: CertifiedCell) -> tuple[Any, ...]:
    """What two cells must share for one's cost to say something about the other's."""
    p = cell.parameters
    workload = p.workload.model_dump(mode="json", exclude={"sync"})
    return (p.filesystem.type.value, p.machine.bus.value, p.machine.format.value, workload)


def _view(cost: Cost, safest: tuple[int, float] | None, drawn: DiskModel | None) -> CostView:
    ratio = cost.commits_per_s / safest[1] if safest and safest[1] else None
    svg = ""
    if drawn is None or cost.disk is drawn:
        summary = f"latency of {cost.commits:,} commits"
        svg = histogram_svg(cost.histogram, summary)
    return CostView(cost, ratio, safest[0] if safest else None, cost.too_fast, svg)
