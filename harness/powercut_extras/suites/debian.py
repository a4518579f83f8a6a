# SPDX-License-Identifier: Apache-2.0
"""What this extra registers: `powercut.machine.suites`, and its line of the doctor's."""

from __future__ import annotations

from typing import Final

from powercut.doctor.host import Probe
from powercut.machine.suites import Suites
from powercut.paths import CACHE
from powercut_extras.suites import daemon, packages, unpacked

_MIB: Final = 1 << 20


class DebianSuites:
    """The port: see there."""

    qemu = staticmethod(unpacked.suite_qemu)
    daemon = staticmethod(daemon.suite_daemon)
    kernel = staticmethod(unpacked.suite_kernel)
    uml = staticmethod(unpacked.suite_uml)
    packages = staticmethod(packages.suite_packages)


SUITES: Final[Suites] = DebianSuites()


def probe(*, fresh: bool) -> Probe:
    """What of suites is in the cache."""
    del fresh
    found = [
        f"{item.suite} ({', '.join(_versions_in(item))}; {item.size / _MIB:.0f} MiB)"
        for item in unpacked.cached_suites()
    ]
    text = ", ".join(found) or "none is in the cache"
    text += f"; in {CACHE / 'suites'}, fetched when a scenario names one"
    return Probe("suites", True, text)


def _versions_in(item: unpacked.CachedSuite) -> list[str]:
    qemu = [f"QEMU {item.qemu}"] if item.qemu else []
    uml = [f"User-Mode Linux {release}" for release in item.uml]
    return [*qemu, *(f"Linux {release}" for release in item.kernels), *uml]
