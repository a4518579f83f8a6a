# SPDX-License-Identifier: Apache-2.0
"""What a check of one state leaves is not there for the next one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from powercut.model.observation import Observation
from powercut.recover.native.folder import check_folder

# A careless check: it reads a copy, which it only makes where there is something to copy.
CARELESS = """
[ -s "$1/db" ] && cp "$1/db" "$2/copy"
echo "= $(cat "$2/copy" 2>/dev/null)" >&3
"""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder that the check may not write in, and that is not below /tmp."""
    with tempfile.TemporaryDirectory(dir=Path.home()) as name:
        yield Path(name)


def state(folder: Path, name: str, text: str) -> Path:
    made = folder / name
    made.mkdir()
    (made / "db").write_text(text)
    return made


def checked(script: str, here: Path, folder: Path, *words: str) -> Observation:
    command = ("/bin/sh", "-c", script, "sh", str(folder), *words)
    return check_folder(command, here, folder, Path("/"), timeout_s=60)


@pytest.mark.parametrize("place", ["/tmp", "/var/tmp", "/dev/shm", "/run"])
def test_a_copy_of_one_state_does_not_vouch_for_the_next(tmp_path, place):
    folder = state(tmp_path, "d", "")
    assert checked(CARELESS, state(tmp_path, "full", "24"), folder, place).lines == b"= 24\n"
    assert checked(CARELESS, state(tmp_path, "empty", ""), folder, place).lines == b"= \n"
    assert not Path(place, "copy").exists()


def test_a_check_that_writes_elsewhere_says_nothing(tmp_path, home):
    """Its copy cannot be made: that it then finds nothing is no loss."""
    folder = state(tmp_path, "d", "")
    seen = checked(CARELESS, state(tmp_path, "full", "24"), folder, str(home))
    assert not seen.complete
    assert "Read-only file system" in seen.failure
    assert "a check may write in the folder, /tmp, /var/tmp, /dev/shm, /run, and nowhere" in (
        seen.failure
    )
    assert list(home.iterdir()) == []


def test_it_may_write_in_the_folder_and_in_memory(tmp_path):
    script = 'echo 1 > "$1/new" && f=$(mktemp) && echo 2 > "$f" && cat "$1/new" "$f" >&3'
    full = state(tmp_path, "full", "24")
    seen = checked(script, full, state(tmp_path, "d", ""))
    assert (seen.complete, seen.lines) == (True, b"1\n2\n")
    assert (full / "new").read_text() == "1\n"


def test_what_its_command_is_made_of_is_there(tmp_path):
    """A program below /tmp, called in its folder, with what lies beside it."""
    program = tmp_path / "bin" / "check"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\ncat "{tmp_path}/beside" >&3\npwd >&3\n')
    program.chmod(0o755)
    (tmp_path / "beside").write_text("there\n")
    folder, full = state(tmp_path, "d", ""), state(tmp_path, "full", "24")
    seen = check_folder(("./check",), full, folder, program.parent, timeout_s=60)
    assert seen.lines.decode().split() == ["there", os.fspath(program.parent)]
