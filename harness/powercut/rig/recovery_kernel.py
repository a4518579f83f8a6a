# SPDX-License-Identifier: Apache-2.0
"""The User-Mode Linux that recovers crash states, by the name that a person gives it."""

from __future__ import annotations

import time
from typing import Final

from powercut.machine.guest.suites import suite_uml
from powercut.model.versions import HOST
from powercut.recover.uml.kernel import UmlKernel, host_kernel
from powercut.scenario.settings import Parameters, ProgramSettings

_FETCH_S: Final = 900.0


def program_kernel(parameters: Parameters) -> str:
    """The name of the User-Mode Linux that runs a cell's program, if there is one."""
    program = parameters.workload
    return program.kernel if isinstance(program, ProgramSettings) else HOST


def recovery_kernel(name: str) -> UmlKernel:
    """`host`, or that of a Debian suite, which is fetched if it is not in the cache.

    Raises UsageError for a name that is no suite, HostError if it cannot be had.
    """
    if name == HOST:
        return host_kernel()
    kernel = suite_uml(name, deadline=time.monotonic() + _FETCH_S)
    return UmlKernel(name, kernel.program, kernel.modules, kernel.libraries)
