# SPDX-License-Identifier: Apache-2.0
"""`powercut init --program`: its recipes, and what it makes of a project that is there.

tests/unit/workloads/test_languages.py runs the programs that it writes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import powercut
from ruamel.yaml import YAML

from powercut.cli import init as init_module
from powercut.cli.init import GITHUB, GITLAB, LANGUAGES, detected
from powercut.paths import EXAMPLES


@pytest.fixture(autouse=True)
def without_wheel(monkeypatch):
    """tests/unit/packaging has the wheel; packing it takes a second."""
    monkeypatch.setattr(init_module, "_write_wheel", lambda folder: None)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_recipes_install_build_and_test(tmp_path, monkeypatch, language):
    monkeypatch.chdir(tmp_path)
    powercut("init", "--program", "--language", language)
    one = LANGUAGES[language]
    github = YAML(typ="safe").load(Path(GITHUB))["jobs"]["power-cuts"]["steps"]
    gitlab = YAML(typ="safe").load(Path(GITLAB))["power-cuts"]["script"]
    for steps in ([step["run"] for step in github if "run" in step], gitlab):
        assert "@" not in "".join(steps)
        assert (one.build in steps) == bool(one.build)
        assert steps[0].endswith(f" python3-venv {one.packages}".rstrip())
        assert any("pip install vendor/powercut-" in step for step in steps)
        assert steps[-1].endswith(f"/powercut try --junit power-cuts.xml -- ./{one.program}")


def test_a_project_decides_the_language(tmp_path):
    for mark, language in {"go.mod": "go", "Cargo.toml": "rust", "pom.xml": "java"}.items():
        folder = tmp_path / language
        folder.mkdir()
        (folder / mark).write_text("")
        assert detected(folder) == language
    assert detected(tmp_path) == "python"


def test_a_go_project_keeps_its_module(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "go.mod").write_text("module example.com/mine // a comment\n\ngo 1.18\n")
    assert "there already  go.mod" in powercut("init", "--program").stdout
    assert '"example.com/mine/powercut"' in (tmp_path / "notes_test.go").read_text()


def test_a_language_alone_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = powercut("init", "--language", "go")
    assert refused.returncode == 2
    assert "--program" in refused.stderr
    assert not list(tmp_path.iterdir())


def test_every_file_of_an_example_is_written():
    for language in ("go", "rust", "java", "node"):
        there = {path for path in (EXAMPLES / language).rglob("*") if path.is_file()}
        written = {EXAMPLES / source for source in LANGUAGES[language].files.values()}
        assert written == {path for path in there if "target" not in path.parts}
