# SPDX-License-Identifier: Apache-2.0
"""The User-Mode Linux that recovers crash states, by the name that a person gives it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from powercut.machine.suites import suites
from powercut.model.errors import HostError, UsageError
from powercut.model.versions import HOST, STAND_IN
from powercut.recover.uml.kernel import UmlKernel, host_kernel, is_debian
from powercut.scenario.settings import Parameters, ProgramSettings

_FETCH_S: Final = 900.0


def program_kernel(parameters: Parameters) -> str:
    """The name of the User-Mode Linux that runs a cell's program, if there is one."""
    program = parameters.workload
    return program.kernel if isinstance(program, ProgramSettings) else HOST


def recovery_kernel(name: str) -> UmlKernel:
    """`host`, that of a Debian suite, which is fetched if it is not in the cache, or a path.

    A distribution without one, as Ubuntu, gets that of a suite for the host's.
    Of a path, the modules are in lib/modules of the program's folder, where `make ARCH=um
    modules_install INSTALL_MOD_PATH=.` puts them.  Raises UsageError for what is neither,
    HostError if it cannot be had.
    """
    if name == HOST:
        return _of_this_host()
    if "/" in name:
        program = Path(name).absolute()
        if not os.access(program, os.X_OK) or program.is_dir():
            raise UsageError(f"{program} is no program", hint="give the `linux` of make ARCH=um")
        return UmlKernel(name, program, program.parent / "lib/modules")
    return _of_suite(name)


def _of_this_host() -> UmlKernel:
    kernel = host_kernel()
    if not kernel.program.exists() and not is_debian():
        with suppress(HostError):  # what it is there for finds that there is none, and says so
            return _of_suite(STAND_IN)
    return kernel


def _of_suite(suite: str) -> UmlKernel:
    return UmlKernel(suite, *suites().uml(suite, deadline=time.monotonic() + _FETCH_S))
