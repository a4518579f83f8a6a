# SPDX-License-Identifier: Apache-2.0
"""A folder of `powercut listen`: what says that it is one comes from outside."""

from __future__ import annotations

import json

import pytest

from powercut.model.errors import DamagedRecording, UsageError
from powercut_extras.elsewhere.listened import FORMAT, Listened


def test_what_was_made_is_opened_and_has_the_same_binding(tmp_path):
    made = Listened.make(tmp_path / "heard")
    assert Listened.open(tmp_path / "heard") == made
    assert made.binding != Listened.make(tmp_path / "other").binding
    with pytest.raises(UsageError, match="it is there already"):
        Listened.make(tmp_path / "heard")


@pytest.mark.parametrize(
    "text", ["", "[", "[]", '["format"]', "{}", "null", "7", '{"format": 1}', f'"{FORMAT}"',
             json.dumps({"format": f"{FORMAT}0"})],
)  # fmt: skip
def test_what_is_of_no_such_format_is_damaged(tmp_path, text):
    (tmp_path / "listen.json").write_text(text)
    with pytest.raises(DamagedRecording, match=f"not of format {FORMAT}"):
        Listened.open(tmp_path)


def test_a_history_that_is_gone_is_damage_and_a_folder_of_something_else_is_not(tmp_path):
    with pytest.raises(DamagedRecording, match=r"lines\.bin"):
        _ = Listened.make(tmp_path / "heard").promises
    with pytest.raises(UsageError, match="nothing was heard there"):
        Listened.open(tmp_path)
