# SPDX-License-Identifier: Apache-2.0
"""What is preloaded into User-Mode Linux (guests/uml), in a program of this host."""

import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from powercut.recover.uml import boot
from powercut.recover.uml.boot import OutsideDisks, haste_library, stamp_library, xstate_library
from powercut.recover.uml.kernel import UmlKernel
from powercut.sandbox.kernel import KernelSandbox


@pytest.mark.parametrize("records", [True, False])
def test_it_is_found_below_a_path_with_a_blank(records, tmp_path, monkeypatch):
    libraries = tmp_path / "a b" / "lib"
    libraries.mkdir(parents=True)
    for library in (haste_library(), stamp_library(), xstate_library()):
        shutil.copy(library, libraries)
    shutil.copytree(boot.guard_binary().parent, libraries.parent / "bin")
    monkeypatch.setattr(boot, "PARTS", libraries.parent)
    program = shutil.which("cat")
    assert program
    kernel = UmlKernel("host", Path(program), Path("/"))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        outside = OutsideDisks((), theirs.fileno()) if records else None
        argv = boot._guard_argv(KernelSandbox((), tmp_path), kernel, outside)
        done = subprocess.run(
            [*argv, program, "/proc/self/maps"],
            stdin=ours,  # the guard ends what it runs when this ends
            capture_output=True,
            text=True,
            check=False,
            pass_fds=[theirs.fileno()],
        )
    assert done.stderr == ""
    assert {library.name for library in boot._preloaded(outside)} <= {
        Path(line).name for line in done.stdout.splitlines()
    }
