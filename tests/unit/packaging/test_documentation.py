# SPDX-License-Identifier: Apache-2.0
"""What is published for people: the site, manual pages, completion."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
from typed_lines import lines_in, typed

from extras import extra
from powercut.cli.commands import cli
from powercut.paths import ROOT

TIMEOUT_S = 300.0


def mkdocs(docs: Path, site: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    configuration = tmp_path / "mkdocs.yml"
    text = (ROOT / "mkdocs.yml").read_text()
    text = text.replace("docs_dir: docs", f"docs_dir: {docs}")
    configuration.write_text(text.replace("[docs/site_hooks.py]", f"[{ROOT}/docs/site_hooks.py]"))
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", configuration]
    return subprocess.run(
        [*argv, "-d", site], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )


def test_the_site_builds_and_no_link_is_dead(tmp_path):
    done = mkdocs(ROOT / "docs", tmp_path / "site", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    page = (tmp_path / "site/troubleshooting.html").read_text()
    wide = re.findall("<(?:table|pre><code)[^>]*>", page)
    assert wide
    assert all('tabindex="0"' in one for one in wide), "a keyboard reaches what scrolls"


def test_a_dead_link_is_refused(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    links = ["nowhere.md", "../README-of-old.md", "index.md#nowhere"]
    lines = [f"[somewhere]({link})\n" for link in links]
    (docs / "index.md").write_text("\n".join(["# Home\n", *lines]))
    done = mkdocs(docs, tmp_path / "site", tmp_path)
    assert done.returncode != 0
    said = done.stdout + done.stderr
    for link in links:
        assert f"WARNING -  Doc file 'index.md' contains a link '{link}'" in said


def test_every_command_has_a_manual_page_with_all_its_options(tmp_path):
    pages = extra("pages.manual").manual_pages()
    with click.Context(cli, info_name="powercut") as context:
        for name in cli.list_commands(context):
            command = cli.get_command(context, name)
            text = pages[f"powercut-{name}.1"].replace("\\-", "-")
            for option in command.params:
                if isinstance(option, click.Option) and not option.hidden:
                    assert option.opts[0] in text, (name, option.opts)
    assert "powercut-run" not in pages["powercut.1"].partition(".SH COMMANDS")[0]
    for name, text in pages.items():
        assert text.startswith(f".TH {name.removesuffix('.1').upper()} 1".replace("-", "\\-")), name
        assert not re.search(r"^'", text, re.MULTILINE), f"{name}: a line that groff would obey"


def test_completion_is_there_for_each_shell():
    program = Path(sys.executable).parent / "powercut"
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run(
            [program, "completion", shell], capture_output=True, text=True, check=False
        )
        assert f"{shell}_complete" in done.stdout, shell
        assert not done.stderr, shell
        assert f"powercut completion {shell}" in (ROOT / "docs/troubleshooting.md").read_text()


def test_bash_completes_a_command_with_it():
    script = (
        'eval "$("$1/powercut" completion bash)"; PATH=$1:$PATH; COMP_CWORD=1;'
        ' COMP_WORDS=(powercut veri); _powercut_completion powercut; echo "${COMPREPLY[@]}"'
    )
    argv = ["bash", "-c", script, "bash", str(Path(sys.executable).parent)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("verify\n", "")


DOCUMENTS = [
    path
    for path in (*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md")
    if "scenario-reference" not in path.name
]
SOURCES = [
    path
    for folder in ("harness/powercut", "scenarios", "workloads")
    for kind in ("*.py", "*.in", "*.j2", "*.yaml", "*.md")
    for path in (ROOT / folder).rglob(kind)
]
PROSE = {"COMMAND", "X"}


def mistakes(path: Path, *, blocks: bool) -> list[str]:
    """Lines that cannot be typed: no such command, or no such option."""
    found = []
    for line in lines_in(path.read_text(), blocks=blocks):
        if line.split()[0] in PROSE:
            continue
        try:
            typed(line)
        except (AssertionError, click.ClickException) as error:
            found.append(f"{path.relative_to(ROOT)}: powercut {line}: {error!r}")
        except ValueError:  # half a line: a quotation mark that is not closed
            continue
    return found


def test_every_command_that_a_document_names_is_there():
    assert [line for path in DOCUMENTS for line in mistakes(path, blocks=True)] == []


def test_every_command_that_a_message_names_is_there():
    assert [line for path in SOURCES for line in mistakes(path, blocks=False)] == []


@pytest.mark.parametrize(
    "line", ["`powercut unbundle x`", "`powercut audit flsh x`", "`powercut run --sed 3`"]
)
def test_one_that_is_not_there_is_noticed(line):
    (said,) = lines_in(line)
    with pytest.raises((AssertionError, click.ClickException)):
        typed(said)
