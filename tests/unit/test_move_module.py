# SPDX-License-Identifier: Apache-2.0
"""The script that moves a module: nothing that names it keeps the old name."""

from __future__ import annotations

import subprocess

import pytest
from move_module import TABLE, Moves

FILES = {
    "harness/powercut/__init__.py": "",
    "harness/powercut/run/__init__.py": "",
    "harness/powercut/rig/__init__.py": "",
    "harness/powercut/rig/cell.py": "VALUE = 1\n",
    "harness/powercut/rig/cells.py": "from powercut.rig.cell import VALUE\n",
    "harness/powercut/rig/deep/__init__.py": "",
    "harness/powercut/rig/deep/well.py": "def f():\n    from powercut.rig import cell, cells\n",
    "tests/test_it.py": (
        "from powercut.rig import (\n    cell,\n    cells as many,\n)\n"
        "from powercut.rig.deep import well\n\n"
        'def test(monkeypatch):\n    monkeypatch.setattr("powercut.rig.cell.VALUE", 2)\n'
        "    monkeypatch.setattr(cell, 'VALUE', 3)\n"
        "    assert cell.VALUE, many.cell\n"
        'PLANTED = f"{_P}/rig/cell.py", "harness/powercut/rig/cell.py"\n'
    ),
    "docs/page.md": (
        "`harness/powercut/rig/cell.py` and powercut/rig/cells.py; [it](../harness/powercut/rig/"
        "deep/well.py), `powercut.rig.cell:VALUE`, not powercut.rig.cellar nor my.powercut.rig.cell"
    ),
    "CHANGELOG.md": "powercut.rig.cell",
    TABLE: "run\tpowercut.rig.cell\nrun\tpowercut.rig.cells\n",
}


@pytest.fixture
def tree(tmp_path):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", tmp_path, *words], check=True)
    return tmp_path


def test_imports_names_and_paths_follow_a_module(tree):
    Moves(tree, [("powercut.rig.cell", "powercut.run.cell")]).make()
    assert (tree / "harness/powercut/run/cell.py").read_text() == "VALUE = 1\n"
    assert not (tree / "harness/powercut/rig/cell.py").exists()
    assert (
        "from powercut.run.cell import VALUE"
        in (tree / "harness/powercut/rig/cells.py").read_text()
    )
    assert (tree / "harness/powercut/rig/deep/well.py").read_text() == (
        "def f():\n    from powercut.rig import cells\n    from powercut.run import cell\n"
    )
    said = (tree / "tests/test_it.py").read_text()
    assert "from powercut.rig import cells as many\nfrom powercut.run import cell\n" in said
    assert '"powercut.run.cell.VALUE"' in said
    assert 'f"{_P}/run/cell.py", "harness/powercut/run/cell.py"' in said
    assert (tree / "docs/page.md").read_text() == (
        "`harness/powercut/run/cell.py` and powercut/rig/cells.py; [it](../harness/powercut/rig/"
        "deep/well.py), `powercut.run.cell:VALUE`, not powercut.rig.cellar nor my.powercut.rig.cell"
    )
    assert (tree / "CHANGELOG.md").read_text() == "powercut.rig.cell"
    assert (tree / TABLE).read_text() == "run\tpowercut.rig.cells\n"


def test_a_module_of_another_name_is_called_by_it(tree):
    Moves(tree, [("powercut.rig.cell", "powercut.run.room")]).make()
    said = (tree / "tests/test_it.py").read_text()
    assert "from powercut.run import room\n" in said
    assert "monkeypatch.setattr(room, 'VALUE', 3)\n    assert room.VALUE, many.cell\n" in said
    compile(said, "test_it.py", "exec")


def test_a_name_that_is_taken_is_left_to_who_has_it(tree):
    path = tree / "tests/test_it.py"
    path.write_text(path.read_text() + "room = cell\n")
    Moves(tree, [("powercut.rig.cell", "powercut.run.room")]).make()
    said = path.read_text()
    assert "from powercut.run import room as cell\n" in said
    assert "setattr(cell, 'VALUE', 3)" in said
    assert said.endswith("room = cell\n")


def test_a_package_moves_with_all_that_it_holds(tree):
    Moves(tree, [("powercut.rig.deep", "powercut.run.deep")]).make()
    assert (tree / "harness/powercut/run/deep/well.py").is_file()
    assert "from powercut.run.deep import well\n" in (tree / "tests/test_it.py").read_text()
    assert "harness/powercut/run/deep/well.py" in (tree / "docs/page.md").read_text()


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("powercut.rig.none", "powercut.run.none", "is not there"),
        ("powercut.rig.cell", "powercut.new.cell", "is no package yet"),
        ("powercut.rig.cell", "powercut.rig.cells", "is there already"),
    ],
)
def test_what_cannot_be_moved_is_said(tree, old, new, why):
    with pytest.raises(ValueError, match=why):
        Moves(tree, [(old, new)])
