# SPDX-License-Identifier: Apache-2.0
"""QEMU as a machine backend: what a machine is made of here, and machine and channel together."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Final

from powercut.channel.guest_channel import GuestChannel
from powercut.machine.guest.image import ensure_guest_image, guest_parts, guest_versions
from powercut.machine.package import package_of
from powercut.machine.port import (
    ConsoleGuest,
    GuestImage,
    ImageLayer,
    MachineAndChannel,
    MachineSpec,
    Part,
    Role,
    all_under_test,
    flavour_for,
    image_of,
    served_disk,
)
from powercut.machine.qemu.accelerator import Accelerators, qemu_version
from powercut.machine.qemu.argv import backing_nodes, build_argv
from powercut.machine.qemu.build import QemuBuild, examine_qemu, find_qemu
from powercut.machine.qemu.machine import QemuMachine
from powercut.machine.qemu.spec import BesideDisk, QemuOptions, QemuSpec
from powercut.machine.qemu.template import TemplateStore
from powercut.machine.qemu.tsc import host_tsc_khz
from powercut.machine.storage_daemon import Daemon, daemon_of
from powercut.machine.suites import suites
from powercut.model.binding import NOT_BOUND
from powercut.model.errors import HostError, PowercutError
from powercut.model.machine import Accelerator, Export, ImageFormat
from powercut.model.versions import AFTER_MOVE, GUEST, HOST, is_path
from powercut.sandbox.users import few_powers_argv
from powercut.scenario.settings import AcceleratorChoice, MachineSettings, Switch

_FETCH_S: Final = 900.0
"""For fetching a suite, once."""


class QemuBackend:
    """Guest images, accelerator and templates: found when the first machine wants them."""

    def __init__(self, cache: Path) -> None:
        self._templates = TemplateStore(cache / "templates", GuestChannel.on_unix)
        self._guests: dict[tuple[str, str], GuestImage] = {}
        self._accelerators = Accelerators()

    def problems(self, settings: MachineSettings) -> tuple[str, ...]:
        flavour = settings.bus.flavour
        tried: tuple[Callable[[], object], ...] = (
            lambda: self._accelerators.of(settings.accelerator),
            lambda: self._qemu(settings.qemu),
            lambda: self._board(settings.qemu, settings.qemu_after_move),
            lambda: self._guest(settings.kernel, flavour),
            lambda: None if settings.export is Export.NONE else self._daemon(settings.qemu).part(),
        )
        return tuple(problem for each in tried if (problem := _problem(each)))

    def options(self, settings: MachineSettings) -> QemuOptions:
        """QEMU's version, and whether virtio-blk lets the guest switch its cache's mode."""
        wce = settings.config_wce
        chosen = None if wce is Switch.AUTO else wce is Switch.ON
        return QemuOptions(
            settings.qemu,
            chosen,
            settings.export,
            settings.cache_after_move,
            settings.qemu_after_move,
        )

    def describe(self, spec: MachineSpec, folder: Path) -> list[str]:
        own, qemu = self._in_own_terms(spec, folder), self._qemu_of(spec)
        return build_argv(own, qemu.program)

    def identity(self, spec: MachineSpec) -> tuple[Part, ...]:
        """The hypervisor, and the guest's kernel and programs."""
        there, guest = self._qemu_after(spec), self._guest_of(spec)
        hypervisors = [_part("hypervisor", self._qemu_of(spec))]
        if there is not None:
            hypervisors.append(_part(AFTER_MOVE, there))
        options = _options(spec)
        served = options.export is not Export.NONE
        bridge = (self._daemon(options.version).part(),) if served else ()
        return (*hypervisors, *bridge, *guest_parts(guest))

    def versions(self, spec: MachineSpec) -> dict[str, str]:
        there = self._qemu_after(spec)
        after = there.facts() if there else {}
        return {
            **{f"qemu_{name}": value for name, value in self._qemu_of(spec).facts().items()},
            **{f"qemu_after_move_{name}": value for name, value in after.items()},
            **guest_versions(self._guest_of(spec)),
        }

    def environment(self, accelerators: Iterable[AcceleratorChoice]) -> dict[str, object]:
        """The host's QEMU, what the accelerators come to, the guest where no kernel was chosen."""
        guest = self._guest(GUEST, "cloud")
        return {
            "qemu": qemu_version(),
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
        """A machine in QEMU, and its channel on a virtio serial port."""
        own = self._in_own_terms(spec, folder)
        with (
            GuestChannel.on_unix(own.channel, history_file=history, digest=digest) as channel,
            QemuMachine(own, folder, templates=self._templates) as machine,
        ):
            yield MachineAndChannel(machine, channel)

    def run_console(self, wanted: ConsoleGuest) -> int:
        accelerator = self._accelerators.of(AcceleratorChoice.AUTO)
        guest = self._guest(GUEST, "cloud")
        return run_console(self._qemu(HOST).program, guest, wanted, accelerator)

    # What a machine is made of

    def _guest(self, kernel: str, flavour: str) -> GuestImage:
        key = (kernel, flavour)
        if key not in self._guests and key == (GUEST, "cloud"):
            self._guests[key] = ensure_guest_image()
        if key not in self._guests:
            with _naming("machine.kernel", kernel):
                self._guests[key] = ensure_guest_image(flavour, kernel=kernel)
        return self._guests[key]

    def _guest_of(self, spec: MachineSpec) -> GuestImage:
        """The guest whose kernel has drivers for the buses of the disks under test."""
        return self._guest(spec.kernel, flavour_for(spec))

    @staticmethod
    def _qemu(version: str) -> QemuBuild:
        with _naming("machine.qemu", version):
            return qemu_of(version, deadline=time.monotonic() + _FETCH_S)

    def _board(self, version: str, after_move: str | None) -> str:
        if after_move is None:
            return PC
        first, there = self._qemu(version), self._other_qemu(after_move)
        with _naming("machine.qemu_after_move", after_move):
            return board_between(first, there)

    @staticmethod
    def _other_qemu(version: str) -> QemuBuild:
        with _naming("machine.qemu_after_move", version):
            return qemu_of(version, deadline=time.monotonic() + _FETCH_S)

    def _qemu_after(self, spec: MachineSpec) -> QemuBuild | None:
        version = _options(spec).qemu_after_move
        return None if version is None else self._other_qemu(version)

    @staticmethod
    def _daemon(version: str) -> Daemon:
        with _naming("machine.qemu", version):
            return daemon_of(version, deadline=time.monotonic() + _FETCH_S)

    def _qemu_of(self, spec: MachineSpec) -> QemuBuild:
        return self._qemu(_options(spec).version)

    def _in_own_terms(self, spec: MachineSpec, folder: Path) -> QemuSpec:
        disk, *others = all_under_test(spec)
        plain = _options(spec).export is Export.NONE
        return QemuSpec(
            guest=self._guest_of(spec),
            qemu=self._qemu_of(spec),
            disk=served_disk(disk),
            channel=folder / "ctl",
            qmp=folder / "qmp",
            cache=disk.cache,
            bus=disk.bus,
            accelerator=self._accelerators.of(spec.accelerator),
            layer=disk.layer,
            start=spec.start,
            config_wce=_options(spec).config_wce,
            queueing=disk.queueing,
            hotplug=spec.hotplug,
            export=_options(spec).export,
            daemon=None if plain else self._daemon(_options(spec).version).program,
            cache_after_move=_options(spec).cache_after_move,
            qemu_after_move=self._qemu_after(spec),
            board=self._board(_options(spec).version, _options(spec).qemu_after_move),
            memory_mib=spec.memory_mib,
            cpus=spec.cpus,
            kernel_arguments=spec.kernel_arguments,
            root=image_of(spec, Role.ROOT),
            program=image_of(spec, Role.PROGRAM),
            serial=disk.serial,
            beside=tuple(
                BesideDisk(served_disk(one), one.size, one.cache, one.bus, one.serial, one.queueing)
                for one in others
            ),
        )


def _part(role: str, qemu: QemuBuild) -> Part:
    return Part(
        role=role,
        name=qemu.binary.name,
        version=qemu.version,
        # A QEMU that was unpacked from a suite knows its package's version, and no dpkg does.
        package=package_of(qemu.binary) or qemu.package,
        sha256=qemu.sha256,
    )


def _options(spec: MachineSpec) -> QemuOptions:
    return spec.options if isinstance(spec.options, QemuOptions) else QemuOptions(HOST)


def _problem(find: Callable[[], object]) -> str:
    try:
        find()
    except PowercutError as error:
        return f"{error}" + (f" ({error.hint})" if error.hint else "")
    return ""


@contextmanager
def _naming(key: str, choice: str) -> Iterator[None]:
    try:
        yield
    except PowercutError as error:
        raise type(error)(f"{key}: {choice}: {error}", hint=error.hint) from None


def qemu_of(choice: str, *, deadline: float) -> QemuBuild:
    """The QEMU that `choice` means: `host`, a suite, or an absolute path.

    `deadline` is on time.monotonic().  Raises HostError with a remedy, or DeadlineExceeded.
    """
    if choice == HOST:
        return examine_qemu(find_qemu())
    if is_path(choice):
        return examine_qemu(Path(choice))
    return suites().qemu(choice, deadline=deadline)


# The board of a guest that moves to a QEMU of another version.
#
# `pc` is in each QEMU another name of that version's own board (`pc-i440fx-7.2`), whose devices and
# their saved state are those of that version.  A guest keeps its board when it moves; a newer QEMU
# knows the boards of older ones, and no QEMU those of newer ones (docs/system/target-i386.rst and
# hw/i386/pc_piix.c in QEMU's source).  libvirt writes the name out when a domain is defined.

PC: Final = "pc"
_TIMEOUT_S: Final = 20.0
_ALIAS: Final = re.compile(r"^pc\s.*\(alias of (pc-[a-z0-9.-]+)\)$", re.MULTILINE)


def board_between(first: QemuBuild, then: QemuBuild) -> str:
    """The name of the first QEMU's own board, which the other one has, too.

    Raises HostError if it has not.
    """
    said = _machines(first.program, first.sha256)
    found = _ALIAS.search(said)
    if found is None:
        raise HostError(f"QEMU {first.version} does not say which board its {PC} is")
    board = found[1]
    there = _machines(then.program, then.sha256).splitlines()
    if board not in {line.split(" ")[0] for line in there}:
        raise HostError(
            f"QEMU {then.version} has no {board}, which is the board of a guest of QEMU "
            f"{first.version}",
            hint="a guest moves to a newer QEMU, or to one of the same version; exchange "
            "machine.qemu and machine.qemu_after_move",
        )
    return board


@lru_cache(maxsize=64)
def _machines(program: Path, _sha256: str) -> str:
    try:
        return subprocess.run(
            [str(program), "-machine", "help"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=_TIMEOUT_S,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError(f"{program} does not say which boards it has: {error}") from None


# A guest with its serial console on this process's stdin and stdout, for a person.

_MEMORY_MIB: Final = 256
_CHUNK: Final = 4096
_END_OF_INPUT: Final = b"\n\x04"  # Ctrl-D on a line of its own


def run_console(
    qemu: Path, image: GuestImage, wanted: ConsoleGuest, accelerator: Accelerator
) -> int:
    """Runs QEMU in the foreground; its exit status.  Raises HostError."""
    with tempfile.TemporaryDirectory(prefix="powercut-console-") as folder:
        initrd = Path(folder) / "initramfs"
        # The kernel unpacks them one after the other (Documentation/driver-api/early-userspace).
        initrd.write_bytes(padded(image.initramfs.read_bytes()) + wanted.initramfs)
        argv = console_argv(
            qemu,
            image.kernel,
            initrd,
            wanted.disk,
            layer=wanted.layer,
            accelerator=accelerator,
            tsc_khz=host_tsc_khz(),
        )
        return _run(argv, wanted.prompt)


def padded(archive: bytes) -> bytes:
    """An archive to which another one can be appended."""
    return archive + bytes(-len(archive) % 4)


def console_argv(
    qemu: Path,
    kernel: Path,
    initrd: Path,
    image: Path,
    *,
    layer: ImageLayer | None = None,
    accelerator: Accelerator,
    tsc_khz: int | None = None,
) -> tuple[str, ...]:
    """QEMU with its first serial port on stdin and stdout; no network."""
    kvm = accelerator is Accelerator.KVM
    words = [
        *("rdinit=/shell", "console=ttyS0", "quiet", "loglevel=1", "panic=-1"),
        "cryptomgr.notests",
        *(() if kvm else ("acpi=off", "pci=nomsi", "no_timer_check")),
        *(("tsc=reliable", f"tsc_early_khz={tsc_khz}") if tsc_khz else ()),
    ]
    denied = ("obsolete", "elevateprivileges", "spawn", "resourcecontrol")
    disk = {"driver": "file", "filename": str(image), "node-name": "storage"}
    image_format = layer.format if layer else ImageFormat.RAW
    node = {"driver": image_format.value, "file": "storage", "node-name": "disk"}
    below = backing_nodes(layer) if layer else []
    nodes = [*below, disk, node | image_format.alone | ({"backing": "backing"} if below else {})]
    return (
        str(qemu),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-sandbox", ",".join(["on", *(f"{what}=deny" for what in denied)])),
        *("-M", "pc", "-accel", "kvm" if kvm else "tcg,thread=multi"),
        *("-cpu", "host" if kvm else "max", "-m", f"{_MEMORY_MIB}M"),
        *("-kernel", str(kernel), "-initrd", str(initrd), "-append", " ".join(words)),
        # mux: Ctrl-A x ends QEMU.  signal=off: Ctrl-C is the guest's.
        *("-chardev", "stdio,id=console,mux=on,signal=off"),
        *("-serial", "chardev:console", "-mon", "chardev=console"),
        *(word for one in nodes for word in ("-blockdev", json.dumps(one))),
        *("-device", "virtio-blk-pci,drive=disk"),
    )


def _run(argv: Sequence[str], prompt: str) -> int:
    """Runs QEMU in the foreground; it never outlives this process."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise HostError("setpriv is not installed", hint="apt-get install util-linux")
    command = [setpriv, "--pdeathsig", "KILL", "--", *few_powers_argv(), *argv]
    if not os.isatty(0):
        return _run_without_terminal(command, prompt)
    # The terminal sends ^C to the whole group; it is meant for the guest.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.call(command)
    finally:
        signal.signal(signal.SIGINT, before)


def _run_without_terminal(command: Sequence[str], prompt: str) -> int:
    """Hands standard input to the guest's shell once that has prompted; its end is the shell's.

    The guest's serial port forgets what it gets before the kernel has opened it.
    """
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as qemu:
        assert qemu.stdin is not None
        assert qemu.stdout is not None
        typist = threading.Thread(target=_type_input, args=(qemu.stdin,), daemon=True)
        said = b""
        while part := os.read(qemu.stdout.fileno(), _CHUNK):
            os.write(1, part)
            said = (said + part)[-_CHUNK:]
            if typist.ident is None and prompt.encode() in said:
                typist.start()
        return qemu.wait()


def _type_input(guest: IO[bytes]) -> None:
    """Sends standard input to the guest's console; one that has gone reads no more."""
    with suppress(OSError):
        while part := os.read(0, _CHUNK):
            guest.write(part)
            guest.flush()
        guest.write(_END_OF_INPUT)
        guest.flush()
