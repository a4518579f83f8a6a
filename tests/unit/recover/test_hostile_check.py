# SPDX-License-Identifier: Apache-2.0
"""A hostile check on this host, of a program and of a captured folder: what it reaches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hostile_tries import Bait, bait, reached

from powercut.recover.native.check import CheckSandbox, unavailable
from powercut.recover.native.folder import check_folder
from powercut.recover.plan import HostRoot
from powercut.sandbox import check

LEFT = {"a named pipe of the host", "a user namespace", "a mount namespace", "chroot"}
"""No view of files keeps a check from a pipe that its user may open.  Namespaces of its own, where
the host grants any, give it nothing: what it sees stays read-only in them."""


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "MEMORY_MAX", 64 << 20)


def of_folder(hung: Bait, tmp_path: Path) -> bytes:
    folder, state = tmp_path / "folder", tmp_path / "state"
    folder.mkdir()
    state.mkdir()
    seen = check_folder(hung.command, state, folder, Path("/"), timeout_s=120)
    assert seen.complete, seen.failure
    return seen.lines


def of_program(hung: Bait, tmp_path: Path) -> bytes:
    if why := unavailable():
        pytest.skip(why)
    environment = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "POWERCUT_FD=3")
    memory = os.memfd_create("tree")
    os.truncate(memory, 8192)
    try:
        with CheckSandbox(HostRoot("/", environment), hung.command, ()) as sandbox:
            checked = sandbox.check(memory, 0, timeout_s=120)
    finally:
        os.close(memory)
    assert checked.status == 0, checked.said
    return checked.lines


@pytest.mark.parametrize("of", [of_folder, of_program])
def test_it_reaches_nothing(of, tmp_path):
    with bait() as hung:
        found = reached(of(hung, tmp_path))
        assert hung.heard() == ["pipe written"]
    assert len(found) >= 50
    assert {name for name, what in found.items() if what} <= LEFT
