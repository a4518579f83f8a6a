# SPDX-License-Identifier: Apache-2.0
"""Two powercuts that make another disk of a state, or find another thing in it, are told apart."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from bench import same_states
from powercut.model.errors import HostError, UsageError

TELLS = """
import os
from pathlib import Path
print((Path(os.environ["PYTHONPATH"]).parent / "told").read_text(), end="")
"""


def line(disk: str, *findings: str) -> str:
    return json.dumps({"state": "one", "disk": disk, "findings": findings}) + "\n"


@pytest.fixture
def compared(tmp_path, monkeypatch):
    """Compares two powercuts that tell what is given."""
    (tmp_path / "tells.py").write_text(TELLS)
    monkeypatch.setattr(same_states.states_told, "__file__", str(tmp_path / "tells.py"))
    monkeypatch.setattr(same_states, "ROOT", tmp_path / "here")
    trial = SimpleNamespace(path=tmp_path / "trial", run=tmp_path)

    def compare(here: str, there: str):
        for name, told in (("here", here), ("there", there)):
            (tmp_path / name).mkdir()
            (tmp_path / name / "told").write_text(told)
        return same_states.compared("xfs", trial, tmp_path / "there")

    return compare


def test_the_same_states_in_another_order_are_the_same(compared):
    figure = compared(line("aa") + line("bb", "lost"), line("bb", "lost") + line("aa"))
    assert figure.ratio == 1
    assert figure.value == 2 * len(same_states.WAYS)


@pytest.mark.parametrize(
    "other",
    [line("ab"), line("aa", "lost"), line("aa") * 2, ""],
    ids=["disk", "finding", "twice", "none"],
)
def test_anything_else_is_not(compared, other):
    with pytest.raises(HostError):
        compared(line("aa"), other)


def test_without_another_checkout_there_is_nothing_to_compare():
    with pytest.raises(UsageError):
        same_states.bench_same_states()
