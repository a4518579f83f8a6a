# SPDX-License-Identifier: Apache-2.0
"""A guest with a crash state mounted, and a prompt on its serial console.

The guest is the small one that records runs, with Debian's static busybox for a shell in
a second initramfs behind the first (the kernel unpacks them one after the other,
Documentation/driver-api/early-userspace/buffer-format.rst).  Its disk is the state as
an image of its own in a scratch folder: whatever is written to it is gone afterwards,
and the recording is not touched.
"""

from __future__ import annotations

import os
import shutil
import struct
from pathlib import Path
from typing import Final

from powercut.crash.states import CrashState
from powercut.disk.backing import backing_of
from powercut.disk.foreign_files import refuse_foreign_files
from powercut.machine.guest.initramfs import build_initramfs, directory, regular
from powercut.machine.port import ConsoleGuest, HasConsole
from powercut.model.errors import HostError
from powercut.recording.disk import DiskRecording
from powercut.recording.materialize import write_image
from powercut.recording.state_names import state_text
from powercut.rig import commands
from powercut.rig.rig import Rig
from powercut.rig.scratch import scratch
from powercut.workload.port import MOUNT_POINT

__all__ = ["LEAVE", "open_shell", "shell_initramfs"]

LEAVE: Final = "`exit` leaves; Ctrl-A, then x, ends it at once"
PROMPT: Final = "powercut:"
_PT_INTERP: Final = 3

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


def open_shell(recording: DiskRecording, state: CrashState) -> int:
    """Boots a guest on `state` with its console on this process's stdin and stdout.

    Returns its exit status once the guest is gone.  Raises HostError with a remedy if
    something is missing.
    """
    busybox = find_busybox()
    rig = Rig.find()
    if not isinstance(rig.machines, HasConsole):
        raise HostError("these machines have no console that a person could use")
    with scratch() as folder:
        image = folder / "disk.img"
        write_image(recording, recording.space.image_writes(state), image)
        refuse_foreign_files(image, recording.image_format)
        extra = shell_initramfs(recording, state, busybox.read_bytes())
        below = backing_of(recording.base, recording.system.parameters.machine.backing_image)
        layer = commands.image_layer(recording.system.parameters, below)
        return rig.machines.run_console(ConsoleGuest(image, layer, extra, PROMPT))


def shell_initramfs(recording: DiskRecording, state: CrashState, busybox: bytes) -> bytes:
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


def _message(recording: DiskRecording, state: CrashState) -> str:
    return (
        f"\n{recording.title}: {state_text(recording, state)}\n"
        f"Changes are lost when you leave: {LEAVE}.\n"
    )


def find_busybox() -> Path:
    """A busybox that needs no libraries.  Raises HostError with a remedy."""
    busybox = shutil.which("busybox", path=f"{os.environ.get('PATH', '')}:/bin:/usr/bin")
    if busybox is None or not is_static(Path(busybox).read_bytes()):
        what = "is not installed" if busybox is None else f"is not static: {busybox}"
        raise HostError(f"busybox {what}", hint="apt-get install busybox-static")
    return Path(busybox)


def is_static(program: bytes) -> bool:
    """Whether an ELF file of 64 bits names no interpreter (elf(5), program headers)."""
    if program[:5] != b"\x7fELF\x02":
        return False
    (table,) = struct.unpack_from("<Q", program, 32)
    size, count = struct.unpack_from("<HH", program, 54)
    kinds = [struct.unpack_from("<I", program, table + size * index)[0] for index in range(count)]
    return _PT_INTERP not in kinds
