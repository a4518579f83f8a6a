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
from powercut.recover.uml.kernel import host_kernel

_LIBRARY = "large_registers.so"
SAID = "userspace - ptrace set fp regs failed, errno = 14"
"""What UML says there before it panics."""

LAST_SHORT = (6, 12)
"""The last release that is known to pass a shorter set of registers than such a processor has."""


def large_registers(folder: Path) -> Path:
    """Makes in `folder` what `be_such_a_host` needs; returns `folder`.

    That is the library that plays the processor, and a `linux.uml` of another name than the host's.
    """
    _build(folder / _LIBRARY)
    script = folder / "linux.uml"
    script.write_text(f'#!/bin/sh\nexec {shutil.which("linux.uml")} "$@"\n')
    script.chmod(0o755)
    _prove(folder)
    return folder


def _build(library: Path) -> None:
    source = Path(__file__).with_name("large_registers.c")
    command = ["cc", "-D_GNU_SOURCE", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared"]
    subprocess.run([*command, "-o", library, source], check=True)


def be_such_a_host(monkeypatch: pytest.MonkeyPatch, folder: Path, *, cured: bool) -> None:
    """From now on this host has that processor, and nothing is known of it yet.

    `folder` is what `large_registers` has made; without the cure a kernel up to `LAST_SHORT`
    panics.  The library is preloaded behind powercut's own: the kernel's sandbox covers /tmp, and
    shows there only what it is told to.
    """
    own = uml_boot._preloaded
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(uml_proof, "_known", {})
    monkeypatch.setattr(uml_proof, "CACHE", folder)
    monkeypatch.setattr(uml_boot, "_preloaded", lambda disks: [*own(disks), folder / _LIBRARY])
    (folder / "uml-host.json").unlink(missing_ok=True)
    if not cured:
        monkeypatch.setattr(uml_boot, "xstate_library", lambda: Path("/dev/null"))


def passes_all_registers() -> str:
    """Why this host's kernel needs no cure there; empty if it does."""
    folder = host_kernel().module_folder
    assert folder is not None
    release = folder.parent.name
    is_short = tuple(map(int, release.split(".")[:2])) <= LAST_SHORT
    return "" if is_short else f"User-Mode Linux {release} passes the whole set of registers"


def _prove(folder: Path) -> None:
    """Shows that what plays the processor has its effect: else every cure would seem to work.

    ld.so ignores a library that it cannot open, without failing.
    """
    if passes_all_registers():
        return
    with pytest.MonkeyPatch.context() as patch:
        be_such_a_host(patch, folder, cured=False)
        seen = uml_proof.uml_proof()
    if seen.ok or seen.detail != SAID:
        raise AssertionError(f"it plays no processor with AMX: without the cure, {seen.detail}")
