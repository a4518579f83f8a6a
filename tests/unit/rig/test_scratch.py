# SPDX-License-Identifier: Apache-2.0
"""Scratch folders are gone afterwards, whatever happened to the process."""

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from fake_machine import FakeBackend

from powercut.model.errors import HostError
from powercut.rig.rig import Rig
from powercut.rig.scratch import require_room_for_sockets, scratch
from powercut.scenario.plan import Plan

HOLDER = """
import sys
from powercut.rig.scratch import scratch
with scratch() as folder:
    (folder / "socket").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


def wait_gone(folder: Path) -> None:
    deadline = time.monotonic() + 120
    while folder.exists():
        assert time.monotonic() < deadline, f"{folder} is still there"
        time.sleep(0.01)  # nothing tells when somebody else's folder goes


def test_it_is_there_and_then_gone():
    with scratch() as folder:
        (folder / "deeper").mkdir()
        (folder / "deeper" / "file").touch()
        assert len(str(folder)) < 60
    assert not folder.exists()


def test_an_exception_does_not_keep_it():
    with pytest.raises(RuntimeError), scratch() as folder:
        raise RuntimeError
    assert not folder.exists()


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM])
def test_a_signal_to_the_holder_does_not_keep_it(sig):
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as holder:
        folder = Path(holder.stdout.readline().strip())
        assert (folder / "socket").exists()
        holder.send_signal(sig)
        holder.wait(timeout=120)
    wait_gone(folder)


def test_a_folder_that_is_too_deep_for_sockets_is_refused_before_anything_starts(
    tmp_path, monkeypatch
):
    short, deep = "/" + "t" * 40, "/" + "t" * 90
    monkeypatch.setattr(tempfile, "gettempdir", lambda: short)
    require_room_for_sockets()
    monkeypatch.setattr(tempfile, "gettempdir", lambda: deep)
    plan = Plan("deep", "", 1, ())
    with pytest.raises(HostError, match="a path of 91 bytes") as error:
        Rig(tmp_path, FakeBackend()).prepare(plan)
    assert "TMPDIR" in error.value.hint


@pytest.mark.parametrize("character", " \t\n:,;%'\"\\$=*\udc80")
def test_a_name_that_others_would_split_is_not_handed_to_them(character, tmp_path, monkeypatch):
    odd = tmp_path / f"a{character}b"
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    with scratch() as folder:
        assert character not in str(folder)
        assert list(odd.iterdir()) == []
    assert not folder.exists()


def test_a_plain_name_is_used(tmp_path, monkeypatch):
    plain = tmp_path / "été_+@~-.1"
    plain.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(plain))
    with scratch() as folder:
        assert folder.parent == plain


def test_an_odd_name_is_refused_at_once_where_nothing_else_can_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "a b"))
    monkeypatch.setattr("powercut.rig.scratch._ELSEWHERE", (str(tmp_path / "none"),))
    with pytest.raises(HostError, match=r"TMPDIR has a name that .*a b") as error:
        Rig(tmp_path, FakeBackend()).prepare(Plan("odd", "", 1, ()))
    assert "set TMPDIR" in error.value.hint
