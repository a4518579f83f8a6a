# SPDX-License-Identifier: Apache-2.0
"""A guest of QEMU's whose disk is a growing image in a captured folder.

    python3 growing_guest.py KERNEL FORMAT DIR [CACHE]

Its PID 1 is a shell script which does what `growing_image.py run` does, with the guest's own
syncs.  What it says goes over a serial port straight to the recorder; a port is drained when it is
closed, so a line is there before the script goes on.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from powercut.machine.guest.initramfs import (
    build_initramfs,
    character_device,
    directory,
    regular,
)
from powercut.paths import ROOT

sys.path.insert(0, str(ROOT / "workloads" / "programs"))

from growing_image import OPERATIONS, PIECE, STRIDE, image_of, pattern

_SCRIPT = f"""#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t devtmpfs none /dev
mount -t proc none /proc
say() {{ echo "$1" > /dev/ttyS0; }}
while ! [ -b /dev/nvme0n1 ]; do :; done
stty -F /dev/ttyS0 raw
say ready
n=1
while [ $n -le {OPERATIONS} ]; do
    say "? $n"
    dd if=/data/$n of=/dev/nvme0n1 bs={PIECE} conv=fsync,notrunc oflag=direct \\
        seek=$((({OPERATIONS} - n + 1) * {STRIDE // PIECE})) 2>/dev/null || say "! dd failed"
    say "+ $n"
    n=$((n + 1))
done
say "- 999"
while :; do sleep 1000; done
"""


def initramfs() -> bytes:
    """busybox, the script, and what each operation writes."""
    busybox = shutil.which("busybox")
    assert busybox is not None
    data = [regular(f"data/{n}", bytes([pattern(n)]) * PIECE) for n in range(1, OPERATIONS + 1)]
    return build_initramfs(
        [
            *(directory(name) for name in ("bin", "dev", "proc", "data")),
            character_device("dev/console", 5, 1),
            regular("bin/busybox", Path(busybox).read_bytes(), executable=True),
            regular("init", _SCRIPT.encode(), executable=True),
            *data,
        ]
    )


def argv(kernel: str, initrd: str, kind: str, image: Path, cache: str) -> list[str]:
    """QEMU with an NVMe disk on the image."""
    lines = image.parent / ".powercut-lines"
    return [
        "qemu-system-x86_64",
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-M", "pc", "-accel", "tcg", "-cpu", "max", "-m", "192"),
        *("-kernel", kernel, "-initrd", initrd),
        *("-append", "quiet loglevel=0 panic=-1 console=null cryptomgr.notests"),
        *("-chardev", f"file,id=lines,path={lines},append=on", "-serial", "chardev:lines"),
        *("-drive", f"file={image},format={kind},if=none,id=disk,cache={cache}"),
        *("-device", "nvme,drive=disk,serial=growing"),
    ]


def main(kernel: str, name: str, folder: str, cache: str = "writeback") -> None:
    """Becomes QEMU."""
    kind, image = image_of(name, folder)
    descriptor = os.memfd_create("initrd", 0)
    os.write(descriptor, initramfs())
    words = argv(kernel, f"/proc/self/fd/{descriptor}", kind, image, cache)
    os.execvp(words[0], words)


if __name__ == "__main__":
    main(*sys.argv[1:])
