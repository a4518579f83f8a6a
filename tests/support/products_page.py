# SPDX-License-Identifier: Apache-2.0
"""docs/products.md: made of the cells of scenarios/products and the figures beside docs/measured.

.venv/bin/python tests/support/products_page.py    writes the page
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ruamel.yaml import YAML

from powercut.paths import ROOT

PAGE: Final = ROOT / "docs" / "products.md"
SCENARIOS: Final = ROOT / "scenarios" / "products"
CLUSTERS: Final = ROOT / "docs" / "measured" / "clusters.json"
FIGURES: Final = ROOT / "docs" / "measured" / "products.json"
_HEAD: Final = """\
# What products promise, and what they keep

Each row is one promise of one store: the call, and the words of its manual. An adapter of a few
lines ([workloads/products](../workloads/products/adapter.py)) stores values by that call alone,
and each eighth time packs or compacts, where the store can. A power cut must leave every value
whose call has returned.

*Files* is the verdict of `powercut capture`, 32 or more crash states by the promise of a
journalling file system; *POSIX* that of the same recording by POSIX's promise, where a name is
durable once its folder was synced; *ext4* that of the scenario, 40 states on a recorded disk, whose
controls were as they must be where it says SAFE; *XFS* and *btrfs* the same there. Where a column
is empty the row was not measured there. Where files lose and ext4 does not, those 40 states of
this file system kept what no sync covers. *Lost* are acknowledged values that some state of
files does not have. The control of each row is its recording of files on a host that ignores
every sync; it was LOSSY for all, as it has to be, and the check found every value where nothing
was lost. A row without words has a call that is named as a commit, and no more. One run each,
seed 1 (Breezy 2), November 2026; a LOSSY row is a finding only once its cause is known.

"""
_COLUMNS: Final = (
    "store", "version", "promise", "files", "POSIX", "ext4", "XFS", "btrfs", "lost",
    "states that lose", "not synced", "syncs a value",
)  # fmt: skip
_CLUSTERS: Final = """
## Clusters

Several nodes that lose their power at one instant ([clusters](clusters.md)), on ext4: 34 crash
states a cell, of NATS 2.9.10 6; the control was LOSSY for each that is SAFE.

"""
_OF_CLUSTERS: Final = ("system", "version", "setting", "words of its manual", "verdict", "lost")
_UNPROVEN: Final = "\nWhy a cell proves nothing:\n\n"
_TAIL: Final = """
A cause that is a link has a page of its own, with the line of the source, a reproduction and its
twin. All cells on a disk, and one of them on files, too:

    for language in python rust go node java; do workloads/products/packages.sh $language; done
    .venv/bin/python tests/support/products_measured.py    # measures all, writes this page
    ./powercut run scenarios/products
    ./powercut try --acks 24 -- workloads/products/xapian.py    # on a disk and on files

This page is made of `scenarios/products`, `docs/measured/products.json` and
`docs/measured/clusters.json`.
"""


def cells() -> list[Mapping[str, Any]]:
    """All cells of the folder, in order."""
    found: list[Mapping[str, Any]] = []
    for path in sorted(SCENARIOS.glob("*.yaml")):
        found += YAML(typ="safe").load(path.read_text())["cells"]
    return found


def page() -> str:
    """The page's text."""
    figures = json.loads(FIGURES.read_text())
    table = _line(_COLUMNS) + _line(["---"] * len(_COLUMNS))
    rows = "".join(_row(cell, figures[cell["name"]]) for cell in cells())
    unproven = "".join(_reasons(cell, figures[cell["name"]]) for cell in cells())
    stores = _HEAD + table + rows + _nothing(figures) + (unproven and _UNPROVEN + unproven)
    lines = [_OF_CLUSTERS, ["---"] * len(_OF_CLUSTERS), *json.loads(CLUSTERS.read_text())]
    return stores + _CLUSTERS + "".join(map(_line, lines)) + _TAIL


def _nothing(figures: Mapping[str, Mapping[str, Any]]) -> str:
    """What was tried and found nothing, in numbers."""
    safe = [seen for seen in figures.values() if seen["files"] == "SAFE"]
    states = sum(seen["states"] for seen in safe)
    return (
        f"\nNothing was found in {len(safe)} of {len(figures)} rows on files: {states:,} states, "
        f"{sum(seen['acknowledged'] for seen in safe)} acknowledged values.\n"
    )


def _reasons(cell: Mapping[str, Any], seen: Mapping[str, Any]) -> str:
    columns = {"files": "files", "disk": "ext4", "xfs": "XFS", "btrfs": "btrfs"}
    return "".join(
        f"- {cell['description'].partition('.')[0]}, {columns[column]}: {reason}\n"
        for column, reason in seen.get("why", {}).items()
    )


def _row(cell: Mapping[str, Any], seen: Mapping[str, Any]) -> str:
    what, _, words = " ".join(cell["description"].split()).partition(". ")
    quoted = re.sub(r"_", r"\\_", words).rstrip(".")
    count = f"{seen['lost']} of {seen['acknowledged']}" if seen["lost"] else "none"
    syncs = f"{seen['syncs'] / seen['acknowledged']:.1f}"
    states = f"{seen['losing']} of {seen['states']}"
    columns = (seen.get(name, "") for name in ("posix", "disk", "xfs", "btrfs"))
    row = (
        what.rstrip("."), seen["version"], quoted, seen["files"], *columns, count, states,
        seen.get("cause", ""), syncs,
    )  # fmt: skip
    return _line(row)


def _line(words: Sequence[str]) -> str:
    return "| " + " | ".join(words) + " |\n"


if __name__ == "__main__":
    PAGE.write_text(page())
