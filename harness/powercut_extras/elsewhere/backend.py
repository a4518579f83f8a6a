# SPDX-License-Identifier: Apache-2.0
"""Foreign machines as a machine backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.machine.lines_backend import LinesBackend
from powercut.machine.port import LINES, MachineAndChannel, MachineSpec, OwnDisk, Part, under_test
from powercut.model.errors import HostError, PowercutError
from powercut.model.verdict import EvidenceLevel
from powercut.scenario.machines import MachineRow
from powercut.scenario.settings import AcceleratorChoice, MachineSettings
from powercut.scenario.settings_machine import PowerSettings
from powercut_extras.elsewhere.channel import LinePort, SshChannel
from powercut_extras.elsewhere.machine import ForeignMachine
from powercut_extras.elsewhere.power import Power
from powercut_extras.elsewhere.remote import Remote, Unreachable
from powercut_extras.elsewhere.ssh import FabricRemote, fabric_module

FOREIGN: Final = MachineRow(
    "powercut_extras.elsewhere.backend:ForeignBackend",
    EvidenceLevel.LIVE_ONLY,
    own_system="powercut_extras.elsewhere.work:ForeignWork",
)
"""What this extra registers."""

_TRY_S: Final = 20.0
_RESTORE_S: Final = 60.0


@dataclass(frozen=True)
class ForeignOptions:
    """Where the machine is, and how its power goes."""

    host: str = ""
    power: PowerSettings | None = None


class ForeignBackend(LinesBackend):
    """Machines that others made, and that go on living after a run."""

    def __init__(self, cache: Path, remote: Callable[[str], Remote] = FabricRemote) -> None:
        """Nothing of them is worth keeping in `cache`; `remote` is the way to a host."""
        del cache
        self._remote = remote

    def problems(self, settings: MachineSettings) -> tuple[str, ...]:
        """Commands that are not here; and why ssh does not get there, unless it may be off."""
        power = Power(settings.power)
        found = [*power.problems()]
        try:
            fabric_module()
            self._look_up(settings.host or "", power.can_start)
        except PowercutError as error:
            found.append(f"{error}" + (f" ({error.hint})" if error.hint else ""))
        return tuple(found)

    def options(self, settings: MachineSettings) -> ForeignOptions:
        return ForeignOptions(settings.host or "", settings.power)

    def describe(self, spec: MachineSpec, folder: Path) -> list[str]:
        del folder
        options = _options(spec)
        lines = [f"ssh {options.host}"]
        if options.power is not None:
            for key in ("off", "on", "status"):
                lines += [f"{key}: {' '.join(one)}" for one in getattr(options.power, key)]
        return lines

    def identity(self, spec: MachineSpec) -> tuple[Part, ...]:
        """The machine and its kernel; of one that is off the name alone."""
        options = _options(spec)
        system = self._look_up(options.host, Power(options.power).can_start)
        return (Part(role="foreign machine", name=options.host, version=system),)

    def versions(self, spec: MachineSpec) -> dict[str, str]:
        """What carries commands there.  The machine's own are facts of each trial."""
        del spec
        return {"fabric_version": str(fabric_module().__version__)}

    def environment(self, accelerators: Iterable[AcceleratorChoice]) -> dict[str, object]:
        del accelerators
        return {"fabric": str(fabric_module().__version__)}

    @contextmanager
    def opened(self, spec: MachineSpec, folder: Path) -> Iterator[MachineAndChannel]:
        """Leaving the context hangs up.  A machine that was cut off gets its power back if what
        was to follow the cut fails."""
        options, disk = _options(spec), under_test(spec).disk
        if not isinstance(disk, OwnDisk):
            raise HostError(f"{options.host} has a disk of its own, and is given none")
        remote = self._remote(options.host)
        machine = ForeignMachine(options.host, remote, Power(options.power), disk.folder)
        with ExitStack() as stack:
            stack.callback(remote.close)
            port = stack.enter_context(LinePort(folder / LINES))
            channel = stack.enter_context(SshChannel(options.host, remote, machine, port))
            try:
                yield MachineAndChannel(machine, channel)
            except BaseException:
                machine.restore(timeout_s=_RESTORE_S)
                raise

    def _look_up(self, host: str, may_be_off: bool) -> str:
        """Its kernel; empty if it does not answer, and may be off.  Raises HostError."""
        remote = self._remote(host)
        try:
            remote.connect(timeout_s=_TRY_S)
            return remote.run("uname -sr", timeout_s=_TRY_S).text
        except Unreachable:
            if may_be_off:
                return ""
            raise
        finally:
            remote.close()


def _options(spec: MachineSpec) -> ForeignOptions:
    assert isinstance(spec.options, ForeignOptions), "options come from this backend"
    return spec.options
