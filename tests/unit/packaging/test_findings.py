# SPDX-License-Identifier: Apache-2.0
"""Each page of docs/findings has its parts, and the lines that show its finding can be typed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from findings_pages import (
    LIST,
    TABLE,
    pages,
    read_page,
    shortlist,
    shortlist_of,
    table,
    table_of,
)
from typed_lines import parsed

from powercut.cli.commands import cli
from powercut.cli.scenarios import chosen_scenarios
from powercut.model.errors import UsageError
from powercut.paths import ROOT
from powercut.scenario.load import expand

FOLDER = ROOT / "docs" / "findings"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "README.md")
PARTS = [
    "What.",
    "Lost.",
    "Versions.",
    "How found.",
    "See it yourself",
    "The promise.",
    "The line.",
    "Remedy.",
    "Known?",
    "A report would say",
]
SHOWING = ("How found.", "See it yourself")
"""The parts whose lines a reader types."""

OURS = ("workloads/", "tests/", "scenarios/", "docs/")


def parts_of(text: str) -> dict[str, str]:
    """What stands below each part's bold word, up to the next one."""
    marks = {name: text.find(f"**{name}") for name in PARTS}
    begins = sorted(at for at in marks.values() if at >= 0)
    ends = dict(zip(begins, [*begins[1:], len(text)], strict=True))
    return {name: text[at : ends[at]] for name, at in marks.items() if at >= 0}


def lines_of(part: str) -> list[str]:
    """The lines of a part that are to be typed, continued ones as one."""
    whole = part.replace("\\\n", " ")
    indented = re.findall(r"^    (?:\$ )?(\S.*)$", whole, re.MULTILINE)
    return indented + re.findall(r"`(\./powercut [^`]+)`", whole)


def commands_of(page: Path) -> list[list[str]]:
    """The words of each line of powercut's, without what a shell would take."""
    parts = parts_of(page.read_text())
    lines = [line for name in SHOWING for line in lines_of(parts[name])]
    typed = [line for line in lines if re.match(r"(\./)?powercut ", line)]
    return [shlex.split(line, comments=True)[1:] for line in typed]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_has_every_part(page):
    parts = parts_of(page.read_text())
    assert [name for name in PARTS if name not in parts] == []
    short = [name for name, text in parts.items() if len(text) < len(name) + 8]
    assert short == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_in_the_site(page):
    assert f"- findings/{page.name}\n" in (ROOT / "mkdocs.yml").read_text()


def test_the_table_and_the_list_say_what_the_pages_say():
    """Both are made of the fields above each page (tests/support/findings_pages.py)."""
    assert table_of(TABLE.read_text()) == table()
    assert shortlist_of(LIST.read_text()) == shortlist()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_the_versions_of_its_fields_and_no_others(page):
    found = read_page(page)
    said = parts_of(found.text)["Versions."] + parts_of(found.text)["What."]
    said += parts_of(found.text)["Lost."]  # where a table has them
    listed = set(re.findall(r"\d+(?:\.\d+)*", " ".join((*found.seen, *found.not_seen))))
    named = set(re.findall(r"\d+(?:\.\d+)*", said))
    assert listed <= named
    exact = r"(?<![\d.])\d+\.\d+\.\d+(?![\d.]*\d)"
    assert set(re.findall(exact, parts_of(found.text)["Versions."])) <= listed


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_script_of_a_page_is_there_and_named_on_it(page):
    found = read_page(page)
    beside = [path for path in FOLDER.iterdir() if path.stem == page.stem and path != page]
    scripts = [path.name for path in beside if path.suffix in {".sh", ".py"}]
    assert scripts == ([found.reproduction] if found.reproduction else [])
    assert found.reproduction in parts_of(found.text)["See it yourself"]


def scripts_named_in(script: Path) -> list[str]:
    """The scripts that the usage line at the head of a script names."""
    usage = re.findall(r"^#? {4}.*\.(?:sh|py)\b.*$", script.read_text(), re.MULTILINE)[:1]
    return re.findall(r"[\w-]+\.(?:sh|py)\b", " ".join(usage))


def scripts_missing_in(script: Path) -> list[str]:
    """Those of them that are not beside it."""
    return [name for name in scripts_named_in(script) if not (script.parent / name).is_file()]


@pytest.mark.parametrize("script", sorted(FOLDER.glob("*.sh")), ids=lambda path: path.stem)
def test_the_usage_line_of_a_script_names_it_and_files_that_are_there(script):
    assert scripts_missing_in(script) == []
    assert scripts_named_in(script)[-1] == script.name or script.name == "in-uml.sh"


def test_a_usage_line_with_another_name_is_noticed(tmp_path):
    script = tmp_path / "a.sh"
    script.write_text("#!/bin/sh\n# Shows it.\n#\n#     sh in-uml.sh b.sh    # or as root\n")
    assert scripts_missing_in(script) == ["in-uml.sh", "b.sh"]


@pytest.mark.parametrize(
    ("old", "new"),
    [("remedy:", "remdey:"), ("seen:", "seen_in:"), ("layer:", "title: T\nlayer:")],
)
def test_a_page_with_wrong_fields_is_refused(tmp_path, old, new):
    page = tmp_path / "page.md"
    text = PAGES[0].read_text()
    assert f"\n{old}" in text
    page.write_text(text.replace(f"\n{old}", f"\n{new}", 1))
    with pytest.raises(ValueError, match="fields"):
        read_page(page)


def test_a_table_that_says_something_else_is_noticed():
    text = TABLE.read_text()
    version = next(page.seen[0] for page in pages() if page.path.stem == "qemu-vhdx-log")
    assert table_of(text.replace(version, "QEMU 0.9")) != table()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_lines_of_a_page_can_be_typed(page):
    """Commands, options, scenarios, cells and files are there."""
    commands = commands_of(page)
    assert commands, "no line of powercut's shows it"
    for name, *words in commands:
        check(name, words)


def check(name: str, words: list[str]) -> None:
    options, rest = parsed(name, words)
    for word in words:
        assert not word.startswith(OURS) or (ROOT / word).exists(), word
    if name == "run":
        scenarios = options.get("scenarios") or tuple(rest)
        made = chosen_scenarios(
            [str(ROOT / w) if w.endswith(".yaml") else w for w in scenarios], ()
        )
        for scenario in made:
            expand(scenario, seed=1, only=tuple(options.get("only") or ()))


@pytest.mark.parametrize("bundle", sorted(FOLDER.glob("*.powercut")), ids=lambda path: path.stem)
def test_a_bundle_beside_a_page_is_judged_as_when_it_was_made(bundle, tmp_path):
    """It shows the finding: its run came out as its scenario expects."""
    page = bundle.with_suffix(".md")
    assert f"powercut verify docs/findings/{bundle.name}" in page.read_text()
    done = CliRunner().invoke(cli, ["verify", str(bundle)])
    assert done.exit_code == 0, done.output
    assert "judged as when it was made" in done.output
    assert "LOSSY" in done.output


@pytest.mark.parametrize(
    "line",
    ["nothing-like-it", "run no-such-scenario", "run first-light --no-such-option",
     "run first-light --only no-such-cell", "test tests/no_such_test.py"],
)  # fmt: skip
def test_a_line_that_cannot_be_typed_is_noticed(line):
    name, *words = line.split()
    with pytest.raises((AssertionError, click.ClickException, UsageError)):
        check(name, words)


def test_the_lines_and_parts_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "**What.** It loses.\n\n"
        "**How found.** So:\n\n    $ powercut audit flushes \\\n        x  # at once\n\n"
        "**See it yourself.** `./powercut run first-light`\n"
    )
    assert list(parts_of(page.read_text())) == ["What.", "How found.", "See it yourself"]
    assert commands_of(page) == [["audit", "flushes", "x"], ["run", "first-light"]]
