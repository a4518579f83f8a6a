# SPDX-License-Identifier: Apache-2.0
"""A guest with a crash state mounted, and a prompt on its serial console.

The guest is the small one that records runs, with Debian's static busybox for a shell in
a second initramfs behind the first (the kernel unpacks them one after the other,
Documentation/driver-api/early-userspace/buffer-format.rst).  Its disk is the state as
an image of its own in a scratch folder: whatever is written to it is gone afterwards,
and the recording is not touched.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from powercut.crash.states import CrashState
from powercut.disk.foreign_files import refuse_foreign_files
from powercut.machine.guest.image import ensure_guest_image
from powercut.machine.guest.initramfs import build_initramfs, directory, regular
from powercut.machine.qemu.accelerator import best_accelerator
from powercut.machine.qemu.machine import find_qemu
from powercut.machine.qemu.tsc import host_tsc_khz
from powercut.model.errors import HostError
from powercut.model.machine import Accelerator, ImageFormat
from powercut.recording.materialize import state_text, write_image
from powercut.recording.open_recording import Recording
from powercut.rig import commands
from powercut.rig.scratch import scratch
from powercut.workload.port import MOUNT_POINT

__all__ = ["LEAVE", "open_shell", "shell_argv", "shell_initramfs"]

LEAVE: Final = "`exit` leaves; Ctrl-A, then x, ends it at once"
PROMPT: Final = "powercut:"
_MEMORY_MIB: Final = 256
_PT_INTERP: Final = 3
_CHUNK: Final = 4096
_END_OF_INPUT: Final = b"\n\x04"  # Ctrl-D on a line of its own

_INIT: Final = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ TERM=${{TERM:-vt100}} PS1='{prompt}\\w# '
mount -t devtmpfs devtmpfs /dev 2>/dev/null
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
for module in $(cat /modules/order $(ls /modules/order.{filesystem} 2>/dev/null)); do
    insmod "$module"
done
tries=0
while [ ! -b /dev/{device} ] && [ $tries -lt 100 ]; do
    tries=$((tries + 1)); sleep 0.1
done
cat /message
{mount}
setsid cttyhack sh
cd /
umount {mount_point} 2>/dev/null
sync
reboot -f
"""

_MOUNT: Final = """if mount -t {filesystem} -o 'rw{options}' /dev/{device} {mount_point}; then
    echo 'Recovered by {filesystem} and mounted on {mount_point}; `dmesg` tells of it.'
    cd {mount_point}
else
    echo 'THE STATE DOES NOT MOUNT; `dmesg` tells why.  The disk is /dev/{device}.'
fi"""


def open_shell(recording: Recording, state: CrashState) -> int:
    """Boots a guest on `state` with its console on this process's stdin and stdout.

    Returns QEMU's exit status once the guest is gone.  Raises HostError with a remedy if
    something is missing.
    """
    busybox = find_busybox()
    guest = ensure_guest_image()
    qemu = find_qemu()
    accelerator, _ = best_accelerator()
    with scratch() as folder:
        image, initrd = folder / "disk.img", folder / "initramfs"
        write_image(recording, recording.space.image_writes(state), image)
        refuse_foreign_files(image, recording.image_format)
        extra = shell_initramfs(recording, state, busybox.read_bytes())
        initrd.write_bytes(padded(guest.initramfs.read_bytes()) + extra)
        argv = shell_argv(
            qemu,
            guest.kernel,
            initrd,
            image,
            image_format=recording.image_format,
            accelerator=accelerator,
            tsc_khz=host_tsc_khz(),
        )
        return _run(argv)


def shell_argv(
    qemu: Path,
    kernel: Path,
    initrd: Path,
    image: Path,
    *,
    image_format: ImageFormat = ImageFormat.RAW,
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
    node = {"driver": image_format.value, "file": "storage", "node-name": "disk"}
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
        *("-blockdev", json.dumps(disk), "-blockdev", json.dumps(node | image_format.alone)),
        *("-device", "virtio-blk-pci,drive=disk"),
    )


def shell_initramfs(recording: Recording, state: CrashState, busybox: bytes) -> bytes:
    """The second initramfs: busybox, the script that is PID 1, and what it says."""
    plan = recording.plan
    filesystem = plan.filesystem if plan else recording.filesystem
    options = f",{plan.mount_options}" if plan and plan.mount_options else ""
    words = {
        "filesystem": filesystem or "none",
        "options": options,
        "device": commands.DEVICE,
        "mount_point": MOUNT_POINT,
    }
    mount = _MOUNT.format(**words) if filesystem else f"echo 'The disk is /dev/{commands.DEVICE}.'"
    init = _INIT.format(**words, prompt=PROMPT, mount=mount)
    return build_initramfs(
        [
            directory("bin"),
            regular("bin/busybox", busybox, executable=True),
            regular("shell", init.encode(), executable=True),
            regular("message", _message(recording, state).encode()),
        ]
    )


def padded(archive: bytes) -> bytes:
    """An archive to which another one can be appended."""
    return archive + bytes(-len(archive) % 4)


def _message(recording: Recording, state: CrashState) -> str:
    return (
        f"\n{recording.title}: {state_text(recording, state)}\n"
        f"Changes are lost when you leave: {LEAVE}.\n"
    )


def find_busybox() -> Path:
    """A busybox that needs no libraries.  Raises HostError with a remedy."""
    found = shutil.which("busybox", path=f"{os.environ.get('PATH', '')}:/bin:/usr/bin")
    if found is None or not is_static(Path(found).read_bytes()):
        what = "is not installed" if found is None else f"is not static: {found}"
        raise HostError(f"busybox {what}", hint="apt-get install busybox-static")
    return Path(found)


def is_static(program: bytes) -> bool:
    """Whether an ELF file of 64 bits names no interpreter (elf(5), program headers)."""
    if program[:5] != b"\x7fELF\x02":
        return False
    (table,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    kinds = [struct.unpack_from("<I", program, table + size * index)[0] for index in range(count)]
    return _PT_INTERP not in kinds


def _run(argv: Sequence[str]) -> int:
    """Runs QEMU in the foreground; it never outlives this process."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise HostError("setpriv is not installed", hint="apt-get install util-linux")
    command = [setpriv, "--pdeathsig", "KILL", "--", *argv]
    if not os.isatty(0):
        return _run_without_terminal(command)
    # The terminal sends ^C to the whole group; it is meant for the guest.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return subprocess.call(command)
    finally:
        signal.signal(signal.SIGINT, before)


def _run_without_terminal(command: Sequence[str]) -> int:
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
            if typist.ident is None and PROMPT.encode() in said:
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
