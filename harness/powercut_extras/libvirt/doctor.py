# SPDX-License-Identifier: Apache-2.0
"""Whether this host has libvirt: a line of the doctor's."""

from __future__ import annotations

import importlib.util
from typing import Final

from powercut.doctor.host import Probe
from powercut.machine.package import output_of
from powercut.model.errors import HostError
from powercut.paths import INSTALLED
from powercut.sandbox.confined import find_tool

_PYTHON: Final = "apt-get install libvirt-dev; " + (
    "pipx inject powercut libvirt-python" if INSTALLED else ".venv/bin/pip install -e '.[libvirt]'"
)


def probe(*, fresh: bool) -> Probe:
    """Whether domains can be made here."""
    del fresh
    lacks, remedies = [], []
    if importlib.util.find_spec("libvirt") is None:
        lacks.append("no Python module libvirt")
        remedies.append(_PYTHON)
    daemon = find_tool("libvirtd") or find_tool("virtqemud")
    if daemon is None:
        lacks.append("no libvirtd")
        remedies.append("apt-get install libvirt-daemon-system")
    if lacks:
        limit = f"{', '.join(lacks)}: only QEMU itself can be tested"
        return Probe("libvirt", False, str(daemon or "nothing usable"), limit, "; ".join(remedies))
    try:
        return Probe("libvirt", True, output_of([str(daemon), "--version"]))
    except HostError as error:
        return Probe(
            "libvirt", False, str(daemon), str(error), "install libvirt-daemon-system again"
        )
