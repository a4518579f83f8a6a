# SPDX-License-Identifier: Apache-2.0
"""RAM templates: guests that start in 40 ms because they have booted before.

A template is a booted guest whose agent waits for a command: its RAM in a file, which
each restored machine maps privately, and the state of its devices.  It is made with a
disk that reads as zeroes, so no byte of a disk under test is ever in it; the agent
drops the block device's cache (`flushbufs`) before it uses the disk that it wakes up
with.  A template is tried once before anybody uses it.

What a restored guest shares with all its siblings: the seed of its random numbers
(nothing that has to be unique may come from the guest), its wall-clock time (that of
the saving), its boot id.  CLOCK_MONOTONIC goes on from the moment of saving.

A template serves exactly the machine it was made from: its key is a hash of the
command line (without paths and without the disk behind the device), the disk's size,
the guest image, the version of QEMU with the digest of its binary, and the host's processor.

Layout of the store: KEY/{ram,state,about.json}, KEY.lock.  All of it may be deleted
while no machine is being started.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from powercut.machine.patience import processor_model
from powercut.machine.port import FileDisk
from powercut.machine.qemu.argv import NullDisk, TemplateRam, build_argv
from powercut.machine.qemu.build import binary_digest
from powercut.machine.qemu.host_view import host_view
from powercut.machine.qemu.hypervisor import Hypervisor
from powercut.machine.qemu.spec import QemuSpec
from powercut.machine.qemu.tsc import host_tsc_khz
from powercut.machine.tool import locked
from powercut.model.errors import HostError, PowercutError
from powercut.model.machine import Start

_FORMAT: Final = 1


class Greeter(Protocol):
    """What a template needs of a guest's channel (a `Channel` has it)."""

    def wait_hello(self, *, timeout_s: float) -> dict[str, str]:
        """Asks the agent who it is and returns its answer."""


OpenChannel = Callable[[Path], AbstractContextManager[Greeter]]
"""Listens on a unix socket, e.g. `GuestChannel.on_unix`.  Given from above: channels
are no business of this package."""


@dataclass(frozen=True)
class Template:
    """Files of a template, and what its guest said of itself when it was made."""

    key: str
    ram: Path
    state: Path
    hello: dict[str, str]


class TemplateStore:
    """Templates in a directory that any number of processes may share."""

    def __init__(self, directory: Path, open_channel: OpenChannel) -> None:
        self.directory = directory
        self._open_channel = open_channel

    def obtain(self, spec: QemuSpec, qemu: Path, disk_size: int, *, timeout_s: float) -> Template:
        """The template for `spec` on a disk of `disk_size` bytes; makes it if there is none.

        Sockets for the making are put beside those of `spec`.  Raises HostError or
        DeadlineExceeded if it cannot be made.
        """
        deadline = time.monotonic() + timeout_s
        key = template_key(spec, qemu, disk_size)
        if template := self._load(key):
            return template
        with self._locked(key, deadline):
            # Somebody else may have made it while this process waited.
            return self._load(key) or self._make(key, spec, qemu, disk_size, deadline)

    def discard(self, template: Template, *, timeout_s: float) -> None:
        """Removes a template that does not work; machines that run from it are not disturbed."""
        with self._locked(template.key, time.monotonic() + timeout_s):
            shutil.rmtree(self.directory / template.key, ignore_errors=True)

    def _load(self, key: str) -> Template | None:
        directory = self.directory / key
        template = Template(key, directory / "ram", directory / "state", {})
        try:
            about = json.loads((directory / "about.json").read_text())
            if about != self._about(template, about["hello"]):
                return None
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return replace(template, hello=about["hello"])

    @staticmethod
    def _about(template: Template, hello: dict[str, str]) -> dict[str, object]:
        """What must not have changed.  RAM is too large to be read each time: its time of
        modification stands for its contents."""
        ram = template.ram.stat()
        return {
            "format": _FORMAT,
            "hello": hello,
            "ram_size": ram.st_size,
            "ram_modified_ns": ram.st_mtime_ns,
            "state_sha256": hashlib.sha256(template.state.read_bytes()).hexdigest(),
        }

    def _make(
        self, key: str, spec: QemuSpec, qemu: Path, disk_size: int, deadline: float
    ) -> Template:
        self._remove_leftovers(key)
        making = self.directory / f"{key}.making.{os.getpid()}"
        making.mkdir()
        try:
            draft = Template(key, making / "ram", making / "state", {})
            disk = NullDisk(disk_size)
            hello = self._boot_and_save(draft, spec, qemu, disk, deadline)
            draft = replace(draft, hello=hello)
            for file in (draft.ram, draft.state):
                _make_durable(file)  # a host that crashes must not leave half a guest
            self._try(draft, spec, qemu, disk, deadline)
            about = making / "about.json"
            about.write_text(json.dumps(self._about(draft, hello), indent=1))
            _make_durable(about)
            final = self.directory / key
            shutil.rmtree(final, ignore_errors=True)
            making.rename(final)
            _make_durable(self.directory)
        except OSError as error:
            raise HostError(f"cannot make a guest template in {making}: {error}") from None
        finally:
            shutil.rmtree(making, ignore_errors=True)
        return Template(key, final / "ram", final / "state", hello)

    def _remove_leftovers(self, own: str) -> None:
        """Removes what makers left that were killed.  Whose lock is free is being made by nobody;
        `own` is the key whose lock the caller holds."""
        for leftover in self.directory.glob("*.making.*"):
            key = leftover.name.partition(".")[0]
            if key == own:
                shutil.rmtree(leftover, ignore_errors=True)
                continue
            with contextlib.suppress(PowercutError), self._locked(key, time.monotonic()):
                shutil.rmtree(leftover, ignore_errors=True)

    def _boot_and_save(
        self, draft: Template, spec: QemuSpec, qemu: Path, disk: NullDisk, deadline: float
    ) -> dict[str, str]:
        ram = TemplateRam(draft.ram, saving=True)
        with self._guest(draft, spec, qemu, disk, ram, deadline) as (hypervisor, channel):
            hello = channel.wait_hello(timeout_s=deadline - time.monotonic())
            hypervisor.save(draft.state, timeout_s=deadline - time.monotonic())
        return hello

    def _try(
        self, draft: Template, spec: QemuSpec, qemu: Path, disk: NullDisk, deadline: float
    ) -> None:
        ram = TemplateRam(draft.ram, saving=False)
        with self._guest(draft, spec, qemu, disk, ram, deadline) as (hypervisor, channel):
            hypervisor.restore(draft.state, timeout_s=deadline - time.monotonic())
            answer = channel.wait_hello(timeout_s=deadline - time.monotonic())
        if answer.get("release") != draft.hello.get("release"):
            raise HostError(f"the restored guest says {answer}, not {draft.hello}")

    @contextlib.contextmanager
    def _guest(
        self,
        draft: Template,
        spec: QemuSpec,
        qemu: Path,
        disk: NullDisk,
        ram: TemplateRam,
        deadline: float,
    ) -> Iterator[tuple[Hypervisor, Greeter]]:
        making = draft.ram.parent
        # The paths of sockets must be short, and whoever made the directory cleans it.
        channel_path = spec.channel.with_name("template.ctl")
        own = replace(spec, channel=channel_path, qmp=spec.qmp.with_name("template.qmp"))
        log, console = making / "qemu.log", making / "console.log"
        khz = host_tsc_khz()
        argv = build_argv(own, qemu, ram=ram, disk=disk, tsc_khz=khz)
        with self._open_channel(channel_path) as channel:
            timeout_s = deadline - time.monotonic()
            view = host_view(own, qemu, making, ram, has_disks=False)
            hypervisor = Hypervisor.launch(
                argv, own.qmp, log, console, view=view, timeout_s=timeout_s
            )
            try:
                yield hypervisor, channel
            finally:
                hypervisor.kill()

    def _locked(self, key: str, deadline: float) -> contextlib.AbstractContextManager[None]:
        file = self.directory / f"{key}.lock"
        return locked(file, deadline=deadline, doing="making the guest template")


def template_key(spec: QemuSpec, qemu: Path, disk_size: int) -> str:
    """Names everything that a template depends on; hexadecimal."""
    guest = replace(spec.guest, kernel=Path("kernel"), initramfs=Path("initramfs"))
    plain = replace(
        spec,
        guest=guest,
        disk=FileDisk(Path("disk")),
        layer=None,
        qemu=None,
        start=Start.AUTO,
        channel=Path("ctl"),
        qmp=Path("qmp"),
    )
    argv = build_argv(
        plain,
        Path("qemu"),
        ram=TemplateRam(Path("ram"), saving=False),
        disk=NullDisk(disk_size),
    )
    known = spec.qemu is not None and spec.qemu.program == qemu
    program = list(spec.qemu.identity) if known and spec.qemu else [binary_digest(qemu)]
    parts = [_FORMAT, argv, spec.guest.digest, program, _processor()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:24]


def _processor() -> str:
    # A guest saved on one processor may use instructions that another lacks, and knows
    # the frequency of its time-stamp counter; to 1 % that is a property of the model.
    return f"{processor_model()} {(host_tsc_khz() or 0) / 1e6:.1f} GHz"


def _make_durable(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
