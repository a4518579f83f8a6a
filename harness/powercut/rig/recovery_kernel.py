# SPDX-License-Identifier: Apache-2.0
"""The User-Mode Linux that recovers crash states, by the name that a person gives it."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from powercut.machine.guest.suites import suite_uml
from powercut.model.errors import UsageError
from powercut.model.versions import HOST
from powercut.recover.uml.kernel import UmlKernel, host_kernel
from powercut.scenario.settings import Parameters, ProgramSettings

_FETCH_S: Final = 900.0


def program_kernel(parameters: Parameters) -> str:
    """The name of the User-Mode Linux that runs a cell's program, if there is one."""
    program = parameters.workload
    return program.kernel if isinstance(program, ProgramSettings) else HOST


def recovery_kernel(name: str) -> UmlKernel:
    """`host`, that of a Debian suite, which is fetched if it is not in the cache, or a path.

    Of a path, the modules are in lib/modules of the program's folder, where `make ARCH=um
    modules_install INSTALL_MOD_PATH=.` puts them.  Raises UsageError for what is neither,
    HostError if it cannot be had.
    """
    if name == HOST:
        return host_kernel()
    if "/" in name:
        program = Path(name).absolute()
        if not os.access(program, os.X_OK) or program.is_dir():
            raise UsageError(f"{program} is no program", hint="give the `linux` of make ARCH=um")
        return UmlKernel(name, program, program.parent / "lib/modules")
    kernel = suite_uml(name, deadline=time.monotonic() + _FETCH_S)
    return UmlKernel(name, kernel.program, kernel.modules, kernel.libraries)
