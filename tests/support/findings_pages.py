# SPDX-License-Identifier: Apache-2.0
"""The pages of docs/findings: what stands above each, and the lists that are made of it.

.venv/bin/python tests/support/findings_pages.py    writes the table and the README's list
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ruamel.yaml import YAML

from powercut.paths import ROOT

FOLDER: Final = ROOT / "docs" / "findings"
TABLE: Final = FOLDER / "README.md"
LIST: Final = ROOT / "README.md"
_HEAD: Final = (
    "| finding | layer | lost | seen in | not in | remedy | known before |\n"
    "| --- | --- | --- | --- | --- | --- | --- |"
)
_LIST_HEAD: Final = "<!-- findings -->"
_LIST_END: Final = "<!-- end of findings -->"
_FIELDS: Final = {"layer", "lost", "seen", "remedy", "known"}
_OPTIONAL: Final = {"not_seen", "reproduction", "summary"}


@dataclass(frozen=True)
class Page:
    """What a page says of its finding in fields; `text` is what stands below them."""

    path: Path
    title: str
    text: str
    layer: str
    lost: str
    seen: tuple[str, ...]
    remedy: str
    known: str
    not_seen: tuple[str, ...] = ()
    reproduction: str = ""
    summary: str = ""


def read_page(path: Path) -> Page:
    """Raises ValueError for fields that are missing or unknown."""
    _, above, text = path.read_text().split("---\n", 2)
    fields = YAML(typ="safe").load(above)
    if not _FIELDS <= set(fields) <= _FIELDS | _OPTIONAL:
        raise ValueError(f"{path.name}: fields {sorted(fields)}")
    for name in ("seen", "not_seen"):
        fields[name] = tuple(fields.get(name, ()))
    title = text.partition("\n")[0].removeprefix("# ")
    return Page(path, title, text, **fields)


def pages() -> tuple[Page, ...]:
    """All of them, in the order of the table: what loses most people's data first."""
    found = [read_page(path) for path in sorted(FOLDER.glob("*.md")) if path != TABLE]
    order = [
        "hypervisor", "storage daemon", "image format", "file system",
        "file system in user space", "shared folder", "block driver", "a mount without a check",
        "database", "version control", "block layer",
    ]  # fmt: skip
    return tuple(
        sorted(found, key=lambda p: ("time only" in p.lost, order.index(p.layer), p.path.name))
    )


def _versions(names: tuple[str, ...]) -> str:
    """ "QEMU 7.2.22, 10.0.2; Linux 6.1": a product's name once for its versions in a row."""
    said, last = "", ""
    for name in names:
        product, _, version = name.partition(" ")
        said += f", {version}" if product == last else f"; {name}" if said else name
        last = product
    return said


def table() -> str:
    """The table of docs/findings/README.md."""
    rows = [
        f"| [{p.title}]({p.path.name}) | {p.layer} | {p.lost} | {_versions(p.seen)} "
        f"| {_versions(p.not_seen)} | {p.remedy} | {p.known} |"
        for p in pages()
    ]
    return "\n".join([_HEAD, *rows])


def shortlist() -> str:
    """The README's list: the pages that have a summary."""
    rows = [
        f"- [{p.summary.removesuffix('.')}](docs/findings/{p.path.name})"
        for p in pages()
        if p.summary
    ]
    return "\n".join([_LIST_HEAD, *rows, _LIST_END])


def between(text: str, first: str, last: str) -> str:
    """The part of `text` from `first` to `last`, both included."""
    return text[text.index(first) : text.index(last, text.index(first)) + len(last)]


def table_of(text: str) -> str:
    """The table that a text has."""
    return between(text, _HEAD, "\n\n").rstrip()


def shortlist_of(text: str) -> str:
    """The list that a text has."""
    return between(text, _LIST_HEAD, _LIST_END)


def main() -> None:
    """Writes both."""
    text = TABLE.read_text()
    TABLE.write_text(text.replace(table_of(text), table()))
    text = LIST.read_text()
    LIST.write_text(text.replace(shortlist_of(text), shortlist()))


if __name__ == "__main__":
    main()
