# SPDX-License-Identifier: Apache-2.0
"""What prints without end fills no disk and no memory of this host."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from checked_folder import check_folder

from powercut.machine.process import spawn
from powercut.recover.native import folder
from powercut.sandbox import printed
from powercut.sandbox.confined import sandboxes
from powercut.sandbox.printed import KEPT_MAX, end_of, finish, tail

MOST = 1 << 20
SOON_S = 60


@pytest.fixture(autouse=True)
def _little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed, "KEPT_MAX", MOST)


def test_of_what_is_printed_without_end_the_end_is_kept(tmp_path: Path) -> None:
    """Of a flood of 64 MiB on each of the two, which is over before the last words are said."""
    errors, console = tmp_path / "errors", tmp_path / "console"
    flood = "head -c 64M /dev/zero; echo; echo the end"
    script = f"({flood}); ({flood}) >&2"
    process = spawn(["/bin/sh", "-c", script], errors, console=console)
    biggest = 0
    while process.poll() is None:
        sizes = [path.stat().st_size for path in (errors, console) if path.exists()]
        biggest = max([biggest, *sizes])
    for path in (errors, console):
        assert tail(path).endswith("the end")
        finish(path, timeout_s=SOON_S)
        assert path.stat().st_size <= MOST
        text = path.read_bytes()
        assert text.endswith(b"\nthe end\n")
        words, _, rest = text.partition(b"\n")
        assert b"not kept" in words
        assert len(rest) >= MOST // 2
    assert biggest <= MOST + (1 << 16)


def test_what_is_short_is_kept_as_it_is_and_at_once(tmp_path: Path) -> None:
    for number in range(3):
        process = spawn(["/bin/sh", "-c", f"echo {number}"], tmp_path / "log")
        process.wait(SOON_S)
        assert tail(tmp_path / "log").split() == [str(one) for one in range(number + 1)]
    finish(tmp_path / "log", timeout_s=SOON_S)
    assert printed._open == {}


def test_a_file_that_is_finished_changes_no_more(tmp_path: Path) -> None:
    """Though a process that has got away still prints."""
    process = spawn(["/bin/sh", "-c", "echo begun; while :; do echo more; done"], tmp_path / "log")
    try:
        end = time.monotonic() + SOON_S
        while not tail(tmp_path / "log") and time.monotonic() < end:
            time.sleep(0.001)
        finish(tmp_path / "log", timeout_s=0)
        before = (tmp_path / "log").read_bytes()
        assert before.startswith((b"begun\n", b"("))
        assert tail(tmp_path / "log", 100)
        assert (tmp_path / "log").read_bytes() == before
    finally:
        process.kill()
        process.wait(SOON_S)


@pytest.mark.skipif(bool(sandboxes().bubblewrap), reason="a check runs in bubblewrap alone")
@pytest.mark.parametrize(
    ("script", "failure"),
    [
        ("yes >&3", "it says more than 1 MiB"),
        ("head -c 64M /dev/zero; echo the end; exit 3", "its status is 3, and it says: "),
    ],
)
def test_a_check_of_a_folder_fills_no_disk(
    script: str, failure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "LINES_MAX", MOST)
    place, state = tmp_path / "folder", tmp_path / "state"
    place.mkdir()
    state.mkdir()
    seen = check_folder(("/bin/sh", "-c", script), state, place, Path("/"), timeout_s=SOON_S)
    assert seen.failure.startswith(failure)
    assert not seen.complete
    assert len(seen.failure) < 3000
    assert seen.lines == b""


def test_of_a_file_without_a_name_the_end_is_kept(tmp_path: Path) -> None:
    with tempfile.TemporaryFile() as file:
        with printed.printed(file.fileno()) as out:
            process = subprocess.Popen(
                ["sh", "-c", f"yes | head -c {3 * KEPT_MAX}; echo end"], stdout=out
            )
        assert process.wait(120) == 0
        assert end_of(file.fileno(), 7) == "y\nend"
        assert os.fstat(file.fileno()).st_size <= KEPT_MAX
