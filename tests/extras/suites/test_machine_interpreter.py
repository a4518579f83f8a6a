# SPDX-License-Identifier: Apache-2.0
"""A program started by another dynamic loader than the one it was linked for."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

import pytest

from powercut.model.errors import HostError
from powercut.paths import WAL_BINARY
from powercut_extras.suites.interpreter import with_interpreter

LOADER = Path("/lib64/ld-linux-x86-64.so.2")
ECHO = Path("/bin/echo")


def test_the_program_runs_with_the_loader_that_it_names(tmp_path):
    loader = tmp_path / "elsewhere" / "loader"
    loader.parent.mkdir()
    shutil.copy(LOADER.resolve(), loader)
    program = tmp_path / "program"
    program.write_bytes(with_interpreter(ECHO.read_bytes(), str(loader)))
    program.chmod(0o755)
    done = subprocess.run([program, "hello"], capture_output=True, text=True, check=True)
    assert done.stdout == "hello\n"
    loader.unlink()
    with pytest.raises(FileNotFoundError):  # the kernel looks for the loader, and for no other
        subprocess.run([program], check=False)


def test_nothing_else_of_the_program_changes():
    before = ECHO.read_bytes()
    after = with_interpreter(before, "/other")
    assert after.endswith(b"/other\0")
    differing = [at for at, byte in enumerate(before) if after[at] != byte]
    assert len(after) == len(before) + len(b"/other\0")
    assert max(differing) - min(differing) < 56, "within one program header"


def test_what_has_no_loader_is_refused():
    with pytest.raises(HostError, match="not a 64-bit ELF program"):
        with_interpreter(b"#!/bin/sh\n", "/other")
    with pytest.raises(HostError, match="without a dynamic loader"):
        with_interpreter(WAL_BINARY.read_bytes(), "/other")
    with pytest.raises(HostError, match="damaged ELF program"):
        with_interpreter(ECHO.read_bytes()[:60], "/other")


def test_a_damaged_header_is_an_error_and_nothing_else():
    program = ECHO.read_bytes()
    for bit in range(64 * 8):
        damaged = bytearray(program)
        damaged[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(HostError):
            with_interpreter(bytes(damaged), "/other")
