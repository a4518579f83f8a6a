# SPDX-License-Identifier: Apache-2.0
"""libvirt as a machine backend: which domains it can make, what they consist of, how they open."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4
from xml.etree import ElementTree as ET

from powercut.channel.guest_channel import GuestChannel
from powercut.machine.guest.image import ensure_guest_image, guest_parts, guest_versions
from powercut.machine.package import package_of
from powercut.machine.port import (
    Attachment,
    GuestImage,
    MachineAndChannel,
    MachineSpec,
    Part,
    all_under_test,
    flavour_for,
)
from powercut.machine.qemu.accelerator import Accelerators
from powercut.machine.qemu.build import QemuBuild, examine_qemu, find_qemu
from powercut.machine.qemu.tsc import host_tsc_khz
from powercut.model.binding import NOT_BOUND
from powercut.model.errors import HostError, PowercutError
from powercut.model.machine import Start
from powercut.model.versions import GUEST, HOST, SUITES
from powercut.scenario.machines import MachineRow
from powercut.scenario.settings import AcceleratorChoice, MachineSettings, Switch
from powercut_extras.libvirt.connection import connect as connect_to
from powercut_extras.libvirt.connection import require_may_start, usual_uri
from powercut_extras.libvirt.definition import read_kept
from powercut_extras.libvirt.domain import BUSES, DomainSpec, Kept, cache_name, domain_xml
from powercut_extras.libvirt.machine import LibvirtMachine

LIBVIRT: Final = MachineRow("powercut_extras.libvirt.backend:LibvirtBackend")
"""What this extra registers."""

_NOBODY: Final = UUID(int=0)
"""Stands for a domain that is described and not made."""


@dataclass(frozen=True)
class LibvirtOptions:
    """What of a machine's settings concerns libvirt alone: its connection, the emulator,
    and the domain that one is made like (`definition.read_kept`; empty: none)."""

    uri: str
    emulator: str = HOST
    like: str = ""


class LibvirtBackend:
    """Domains of this host's libvirt; connects when the first is wanted."""

    def __init__(self, cache: Path) -> None:
        """Nothing of a domain is worth keeping in `cache`."""
        del cache
        self._accelerators = Accelerators()

    def problems(self, settings: MachineSettings) -> tuple[str, ...]:
        found = [*_refused(settings)]
        for find in (
            lambda: require_may_start(_uri(settings)),
            lambda: self._accelerators.of(settings.accelerator),
            lambda: self._qemu(settings.qemu),
            lambda: self._guest(settings.kernel, settings.bus.flavour),
        ):
            try:
                find()
            except PowercutError as error:
                found.append(f"{error}" + (f" ({error.hint})" if error.hint else ""))
        return tuple(found)

    def options(self, settings: MachineSettings) -> LibvirtOptions:
        """The connection, the emulator and the domain that it is to be like."""
        return LibvirtOptions(_uri(settings), settings.qemu, settings.like or "")

    def describe(self, spec: MachineSpec, folder: Path) -> list[str]:
        own = self._own(spec, _NOBODY)
        disks = all_under_test(spec)
        return domain_xml(spec, disks, own, folder, _likes(spec)).splitlines()

    def identity(self, spec: MachineSpec) -> tuple[Part, ...]:
        """libvirt, the hypervisor, and the guest's kernel and programs."""
        qemu = self._qemu(_options(spec).emulator)
        hypervisor = Part(
            role="hypervisor",
            name=qemu.binary.name,
            version=qemu.version,
            package=package_of(qemu.binary) or qemu.package,
            sha256=qemu.sha256,
        )
        manager = Part(role="machine manager", name="libvirt", version=self._libvirt_version(spec))
        return (manager, hypervisor, *guest_parts(self._guest_of(spec)))

    def versions(self, spec: MachineSpec) -> dict[str, str]:
        """libvirt and QEMU, and the guest's kernel, with digests."""
        qemu = self._qemu(_options(spec).emulator)
        return {
            "libvirt_version": self._libvirt_version(spec),
            **{f"qemu_{name}": value for name, value in qemu.facts().items()},
            **guest_versions(self._guest_of(spec)),
        }

    def environment(self, accelerators: Iterable[AcceleratorChoice]) -> dict[str, object]:
        """The host's QEMU, what the accelerators come to, the guest where no kernel was chosen."""
        guest = self._guest(GUEST, "cloud")
        return {
            "qemu": self._qemu(HOST).version,
            "accelerator": self._accelerators.facts(accelerators),
            "guest": {"kernel": guest.kernel_release, "digest": guest.digest},
        }

    def emulates(self, accelerator: AcceleratorChoice) -> bool:
        """Whether KVM does not run the guest.  Raises HostError."""
        return self._accelerators.emulate(accelerator)

    @contextmanager
    def open(
        self,
        spec: MachineSpec,
        folder: Path,
        *,
        history: Path | None = None,
        digest: bytes = NOT_BOUND,
    ) -> Iterator[MachineAndChannel]:
        """A domain of its own name, and its channel on a virtio serial port."""
        own = self._own(spec, uuid4())

        def xml(disks: Sequence[Attachment]) -> str:
            return domain_xml(spec, disks, own, folder, _likes(spec))

        connection = connect_to(_options(spec).uri)
        with (
            GuestChannel.on_unix(folder / "ctl", history_file=history, digest=digest) as channel,
            LibvirtMachine(connection, own.uuid, all_under_test(spec), xml, folder) as machine,
        ):
            yield MachineAndChannel(machine, channel)

    # What a machine is made of

    @staticmethod
    def _guest(kernel: str, flavour: str) -> GuestImage:
        return ensure_guest_image(flavour, kernel=kernel)

    def _guest_of(self, spec: MachineSpec) -> GuestImage:
        return self._guest(spec.kernel, flavour_for(spec))

    @staticmethod
    def _qemu(emulator: str) -> QemuBuild:
        return examine_qemu(find_qemu() if emulator == HOST else Path(emulator))

    @staticmethod
    def _libvirt_version(spec: MachineSpec) -> str:
        number = connect_to(_options(spec).uri).getLibVersion()
        return f"{number // 1_000_000}.{number // 1000 % 1000}.{number % 1000}"

    def _own(self, spec: MachineSpec, uuid: UUID) -> DomainSpec:
        models = security_models(_options(spec).uri)
        return DomainSpec(
            name=f"powercut-{uuid}",
            uuid=uuid,
            emulator=self._qemu(_options(spec).emulator).program,
            guest=self._guest_of(spec),
            accelerator=self._accelerators.of(spec.accelerator),
            # The sockets and files are ours alone: so QEMU runs as we do.
            owner=_caller() if "dac" in models else None,
            unlabelled=tuple(model for model in models if model not in ("none", "dac")),
            tsc_khz=host_tsc_khz() if uuid != _NOBODY else None,
        )


@functools.cache
def security_models(uri: str) -> tuple[str, ...]:
    """The security drivers of the host's libvirt (capabilities: host/secmodel/model)."""
    capabilities = ET.fromstring(connect_to(uri).getCapabilities())
    return tuple(element.text or "" for element in capabilities.iterfind("host/secmodel/model"))


def _refused(settings: MachineSettings) -> Iterator[str]:
    """What libvirt cannot express, or this backend does not."""
    if settings.bus not in BUSES:
        known = ", ".join(bus.value for bus in BUSES)
        yield f"machine.bus: libvirt has no disk on {settings.bus.value}; it has {known}"
    if cache_name(settings.host_cache) is None:
        yield "machine.cache: libvirt knows modes, and no mode consists of these parts"
    if settings.config_wce is not Switch.AUTO:
        yield "machine.config_wce: libvirt leaves it as QEMU has it"
    if settings.start is Start.RESTORED:
        yield "machine.start: domains are booted here, never restored"
    if settings.qemu in SUITES:
        yield "machine.qemu: an emulator of libvirt's is the host's, or an absolute path"


def _uri(settings: MachineSettings) -> str:
    return settings.connect or usual_uri()


def _options(spec: MachineSpec) -> LibvirtOptions:
    given = spec.options
    if not isinstance(given, LibvirtOptions):
        raise HostError("this machine is not described for libvirt")
    return given


def _likes(spec: MachineSpec) -> tuple[Kept | None, ...]:
    """What each disk is made like."""
    own = [one.options for one in all_under_test(spec)]
    chosen = [one.like if isinstance(one, LibvirtOptions) else _options(spec).like for one in own]
    return tuple(read_kept(like) if like else None for like in chosen)


def _caller() -> tuple[int, int]:
    return os.geteuid(), os.getegid()
