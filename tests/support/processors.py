# SPDX-License-Identifier: Apache-2.0
"""Hosts that this one is not: a processor on which User-Mode Linux panics."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from powercut.recover.uml import boot as uml_boot
from powercut.recover.uml import proof as uml_proof

SAID = "userspace - ptrace set fp regs failed, errno = 14"
"""What UML says there before it panics."""


def large_registers(folder: Path) -> Path:
    """Makes in `folder` a `linux.uml` that meets a processor with AMX; returns `folder`."""
    library = folder / "large_registers.so"
    source = Path(__file__).with_name("large_registers.c")
    command = ["cc", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([*command, "-o", library, source], check=True)
    script = folder / "linux.uml"
    preload = f"${{LD_PRELOAD:+$LD_PRELOAD:}}{library}"
    script.write_text(f'#!/bin/sh\nLD_PRELOAD="{preload}" exec {shutil.which("linux.uml")} "$@"\n')
    script.chmod(0o755)
    return folder


def be_such_a_host(monkeypatch: pytest.MonkeyPatch, folder: Path, *, cured: bool) -> None:
    """From now on this host has that processor, and nothing is known of it yet.

    `folder` is what `large_registers` has made; without the cure the kernel panics.
    """
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(uml_proof, "_known", {})
    monkeypatch.setattr(uml_proof, "CACHE", folder)
    (folder / "uml-host.json").unlink(missing_ok=True)
    if not cured:
        monkeypatch.setattr(uml_boot, "xstate_library", lambda: Path("/dev/null"))
