# SPDX-License-Identifier: Apache-2.0
"""A guest with its serial console on this process's stdin and stdout, for a person."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from powercut.machine.guest_image import GuestImage
from powercut.machine.port import ConsoleGuest, ImageLayer
from powercut.machine.qemu.argv import backing_nodes
from powercut.machine.qemu.tsc import host_tsc_khz
from powercut.model.errors import HostError
from powercut.model.machine import Accelerator, ImageFormat
from powercut.sandbox.users import few_powers_argv

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
