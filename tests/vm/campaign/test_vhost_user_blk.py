# SPDX-License-Identifier: Apache-2.0
"""A guest of QEMU on qemu-storage-daemon's vhost-user-blk export: its syncs send no flush.

docs/findings/vhost-user-blk-write-through.md has the reason.  A version that writes through, or
says that it does not, fails the first test.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from suite_tools import qemu_tools

from powercut.machine.guest.initramfs import Entry, build_initramfs, directory, regular
from powercut.machine.guest.kernel_package import Kernel
from powercut.machine.guest.kernel_source import kernel_of
from powercut.machine.qemu.backend import qemu_of

BUSYBOX = shutil.which("busybox")
BRIDGE = shutil.which("qemu-storage-daemon")
pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif(
        not (BUSYBOX and BRIDGE), reason="busybox or qemu-storage-daemon is missing"
    ),
]

WRITES = 100
BOOT_S = 300.0
START_S = 60.0
FETCH_S = 900.0
INIT = f"""#!/bin/busybox sh
/bin/busybox mount -t devtmpfs d /dev
/bin/busybox mount -t sysfs s /sys
while read -r module; do /bin/busybox insmod "$module"; done < /modules/order
until [ -b /dev/vda ]; do /bin/busybox usleep 10000; done
CACHE
echo "cache: $(/bin/busybox cat /sys/block/vda/cache_type)"
n=0
while [ $n -lt {WRITES} ]; do
    /bin/busybox dd if=/dev/zero of=/dev/vda bs=4096 count=1 seek=$n conv=fsync,notrunc || break
    n=$((n + 1))
done 2>/dev/null
echo "synced: $n"
/bin/busybox poweroff -f
"""


def entries(kernel: Kernel, cache: str) -> Iterator[Entry]:
    yield from (directory(name) for name in ("dev", "sys", "bin", "modules"))
    assert BUSYBOX is not None
    yield regular("bin/busybox", Path(BUSYBOX).read_bytes(), executable=True)
    yield regular("init", INIT.replace("CACHE", cache).encode(), executable=True)
    yield regular("modules/order", "".join(f"/modules/{n}\n" for n in kernel.orders[""]).encode())
    for name in kernel.orders[""]:
        yield regular(f"modules/{name}", (kernel.folder / "modules" / name).read_bytes())


@contextlib.contextmanager
def running(argv: list[str], socket: Path) -> Iterator[None]:
    """A server, from when its socket is there until the end."""
    server = subprocess.Popen(argv)
    deadline = time.monotonic() + START_S
    try:
        while not socket.exists():
            assert server.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield
    finally:
        server.terminate()
        server.wait(START_S)


@pytest.fixture(scope="module", params=["host", "trixie", "sid"])
def programs(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str]:
    """The storage daemon and the QEMU of a suite, 7.2, 10.0 and 11.1 when this was written."""
    hypervisor = str(qemu_of(request.param, deadline=time.monotonic() + FETCH_S).program)
    if request.param == "host":
        return str(BRIDGE), hypervisor
    tools = qemu_tools(request.param, tmp_path_factory.mktemp(request.param))
    return str(tools / "qemu-storage-daemon"), hypervisor


def flushes(
    folder: Path, programs: tuple[str, str], device: str = "", cache: str = ""
) -> tuple[str, int]:
    """What the guest printed; how many flushes arrived by the time that it had synced."""
    daemon, hypervisor = programs
    kernel = kernel_of("guest", "cloud", deadline=time.monotonic() + BOOT_S)
    (folder / "initramfs").write_bytes(build_initramfs(entries(kernel, cache)))
    nbd, vhost, stats = folder / "nbd", folder / "vhost", folder / "stats"
    memory = ["nbdkit", "-f", "-U", str(nbd), "--filter=stats", "memory", "16M"]
    disk = {"driver": "nbd", "node-name": "disk", "server": {"type": "unix", "path": str(nbd)}}
    export = {
        "type": "vhost-user-blk", "id": "export", "node-name": "disk", "writable": True,
        "addr": {"type": "unix", "path": str(vhost)},
    }  # fmt: skip
    bridge = [daemon, "--blockdev", json.dumps(disk), "--export", json.dumps(export)]
    guest = [
        hypervisor, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-M", "q35", "-accel", "tcg", "-cpu", "max", "-m", "256M",
        "-object", "memory-backend-memfd,id=m,size=256M,share=on", "-numa", "node,memdev=m",
        "-kernel", str(kernel.image), "-initrd", str(folder / "initramfs"),
        "-append", "console=ttyS0 quiet panic=-1", "-serial", "stdio",
        "-chardev", f"socket,id=c,path={vhost}", "-device", f"vhost-user-blk-pci,chardev=c{device}",
    ]  # fmt: skip
    with running([*memory, f"statsfile={stats}"], nbd), running(bridge, vhost):
        done = subprocess.run(guest, capture_output=True, text=True, check=False, timeout=BOOT_S)
    assert f"synced: {WRITES}" in done.stdout, done.stdout + done.stderr
    counted = stats.read_text()
    assert re.search(rf"^write: {WRITES} ops", counted, re.MULTILINE), counted
    seen = re.search(r"^flush: (\d+) ops", counted, re.MULTILINE)
    (said,) = re.findall(r"cache: (.*?)\r?\n", done.stdout)
    return said, int(seen[1]) if seen else 0


def test_the_export_says_write_through_and_sends_no_flush(
    tmp_path: Path, programs: tuple[str, str]
) -> None:
    said, arrived = flushes(tmp_path, programs)
    assert said == "write through"
    assert arrived <= 1  # the export's own, when its client has left


@pytest.mark.parametrize(
    ("device", "cache"),
    [(",config-wce=off", ""), ("", 'echo "write back" > /sys/block/vda/cache_type')],
)
def test_either_remedy_sends_them_all(
    tmp_path: Path, programs: tuple[str, str], device: str, cache: str
) -> None:
    said, arrived = flushes(tmp_path, programs, device, cache)
    assert said == "write back"
    assert arrived >= WRITES
