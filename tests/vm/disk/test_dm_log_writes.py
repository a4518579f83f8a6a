# SPDX-License-Identifier: Apache-2.0
"""Real logs of the kernel's dm-log-writes target, made by workloads/dmlog.

In User-Mode Linux, which boots in a second, and in the distribution's full kernel under
QEMU: two kernels, two block drivers.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from parts import built

from powercut.machine.guest.initramfs import build_initramfs, character_device, directory, regular
from powercut.machine.guest.kernel_package import ensure_kernel
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER
from powercut.paths import BUILD, ROOT
from powercut.sandbox.confined import find_tool
from powercut_extras.logs.logs import Dialect, import_log, write_log

BOOT_S = 300  # normally two seconds (UML), six (QEMU without KVM)
DOWNLOAD_S = 600  # once
DISK = 16 << 20
FLUSH, FUA, DISCARD, MARK, METADATA = 1, 2, 4, 8, 16


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The test's PID 1 and the dmlog program, both static."""
    for name in ("gcc", "mkfs.ext4"):
        if find_tool(name) is None:
            pytest.skip(f"{name} is not installed; `powercut doctor` says how to get it")
    source = ROOT / "workloads" / "dmlog"
    folder = built(source, tmp_path_factory.mktemp("dmlog"))
    command = ["gcc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    command += ["-static", f"-I{source}", "-o", folder / "init"]
    here = Path(__file__).parent
    subprocess.run([*command, here / "dmlog_init.c", source / "dmlog.c"], check=True)
    return folder


@dataclass
class Guest:
    """A kernel to run a script in: its modules in order, its two disks, how to start it."""

    modules: list[Path]
    disks: tuple[str, str]
    argv: Callable[[Path, Path, Path], list[str]]


def uml_guest() -> Guest:
    guard, kernel = BUILD / "bin" / "uml-guard", shutil.which("linux.uml")
    xstate = BUILD / "lib" / "uml-xstate.so"
    if kernel is None:
        pytest.skip("linux.uml is not installed (Debian package user-mode-linux)")
    if not guard.exists():
        pytest.skip(f"{guard} is not built (make -C guests/uml)")
    drivers = sorted(Path("/usr/lib/uml/modules").glob("*/kernel/drivers/md"))[-1]

    def argv(initrd: Path, disk: Path, log: Path) -> list[str]:
        return [
            *(str(guard), "--preload", xstate.name, "--libraries", str(xstate.parent)),
            *(kernel, "mem=128M", f"initrd={initrd}"),
            *(f"ubd0={disk}", f"ubd1={log}", "con=null", "con0=null,fd:1"),
            *("quiet", "panic=-1", "noreboot", "uml_dir=/dev/null/"),
        ]

    names = ("dm-mod.ko", "dm-log-writes.ko")
    return Guest([drivers / name for name in names], ("/dev/ubda", "/dev/ubdb"), argv)


def qemu_guest() -> Guest:
    if shutil.which("qemu-system-x86_64") is None:
        pytest.skip("QEMU is not installed (Debian package qemu-system-x86)")
    kernel = ensure_kernel("full", deadline=time.monotonic() + DOWNLOAD_S)
    order = [*kernel.orders[""], *kernel.orders["log-writes"]]

    def argv(initrd: Path, disk: Path, log: Path) -> list[str]:
        drives = [f"file={path},if=virtio,format=raw,discard=unmap" for path in (disk, log)]
        return [
            *("qemu-system-x86_64", "-nodefaults", "-display", "none", "-no-reboot"),
            *("-M", "pc", "-accel", "tcg", "-cpu", "max", "-m", "256", "-serial", "stdio"),
            *("-kernel", str(kernel.image), "-initrd", str(initrd)),
            *("-append", "console=ttyS0 quiet panic=-1 cryptomgr.notests no_timer_check"),
            *("-drive", drives[0], "-drive", drives[1]),
        ]

    modules = [kernel.folder / "modules" / name for name in order]
    return Guest(modules, ("/dev/vda", "/dev/vdb"), argv)


@pytest.fixture(scope="module", params=["uml", pytest.param("qemu", marks=pytest.mark.nightly)])
def guest(request):
    return {"uml": uml_guest, "qemu": qemu_guest}[request.param]()


def run_script(
    guest: Guest, programs: Path, folder: Path, base: bytes, script: str
) -> tuple[Path, Path, Path]:
    """Runs `script` in a guest; the base image, the disk as it was left, and the log."""
    paths = folder / "base", folder / "disk", folder / "log"
    paths[0].write_bytes(base)
    paths[1].write_bytes(base)
    paths[2].touch()
    os.truncate(paths[2], 64 << 20)
    data, log = guest.disks
    setup = "".join(f"module /{module.name}\n" for module in guest.modules)
    setup += f"wait {data}\nwait {log}\nexec /bin/dmlog create pc {data} {log}\n"
    finish = "exec /bin/dmlog status pc\nexec /bin/dmlog remove pc\n"
    initrd = folder / "initrd"
    initrd.write_bytes(
        build_initramfs(
            [
                *(directory(name) for name in ("dev", "bin", "mnt")),
                character_device("dev/console", 5, 1),
                regular("init", (programs / "init").read_bytes(), executable=True),
                regular("bin/dmlog", (programs / "bin/dmlog").read_bytes(), executable=True),
                regular("script", (setup + script + finish).encode()),
                *(regular(module.name, module.read_bytes()) for module in guest.modules),
            ]
        )
    )
    held, holder = os.pipe()  # the guard of UML ends everything when this pipe closes
    try:
        result = subprocess.run(
            guest.argv(initrd, paths[1], paths[2]),
            stdin=held,
            capture_output=True,
            timeout=BOOT_S,
            check=False,
            text=True,
        )
    finally:
        os.close(held)
        os.close(holder)
    assert "script done" in result.stdout, result.stdout + result.stderr
    assert "logging_disabled" not in result.stdout
    return paths


def pattern(length: int, seed: int) -> bytes:
    return (np.arange(length // 8, dtype="<u8") + np.uint64(seed << 32)).tobytes()


def replay(image: bytearray, imported, upto: int) -> bytes:
    """The image after the first `upto` entries, from the definition of the format."""
    log = imported.log
    for entry in range(upto):
        start, length = int(log.offset[entry]), int(log.length[entry])
        if log.flags[entry] & DISCARD:
            image[start : start + length] = bytes(length)
        elif length:
            image[start : start + length] = log.payload(entry).tobytes()
    return bytes(image)


def test_what_was_sent_is_what_is_read(guest, programs, tmp_path):
    """One request at a time on the bare device: the log is known entry for entry."""
    rng = random.Random(1)
    steps, wanted, held = ["open /dev/mapper/pc"], [], []
    for seed in range(1, 60):
        what = rng.choice(["write", "write", "write", "fua", "flush", "discard", "mark"])
        length = 512 * rng.randint(1, 16)
        offset = seed * 16384  # no two overlap, so that no order is in doubt
        if what == "flush":
            steps.append("flush")
            wanted += [*held, (FLUSH, 0, 0, b"")]
            held = []
        elif what == "mark":
            name = rng.choice([f"ack {seed}", f"attempt {seed}", f"with \\ and  spaces {seed}"])
            steps.append(f"mark {name}")
            wanted.append((MARK, 0, 0, name.encode()))
        elif what == "discard":
            steps.append(f"discard {offset} {length}")
            held.append((DISCARD, offset, length, b""))
        else:
            steps.append(f"{what} {offset} {length} {seed}")
            data = pattern(length, seed)
            if what == "write":
                held.append((0, offset, length, data))
            else:  # the kernel's block device sends FUA, and then a flush all the same
                wanted += [(FUA, offset, length, data), *held, (FLUSH, 0, 0, b"")]
                held = []
    steps.append("close")
    # Closing a block device flushes nothing by itself; removal logs what was held back.
    wanted += [*held, (MARK, 0, 0, b"dm-log-writes-end")]
    base = random.Random(2).randbytes(DISK)
    image, disk, path = run_script(guest, programs, tmp_path, base, "\n".join(steps) + "\n")

    imported = import_log(path, base=image)
    log = imported.log
    found = []
    for entry in range(len(log)):
        flags = int(log.flags[entry])
        data = log.names[entry].encode() if flags & MARK else b""
        if log.length[entry] and not flags & DISCARD:
            data = log.payload(entry).tobytes()
        found.append((flags & ~METADATA, int(log.offset[entry]), int(log.length[entry]), data))
    assert found == wanted
    assert (log.dialect, log.complete, log.doubts) == (Dialect.KERNEL, True, ())
    acks = [int(name.split()[1]) for *_, name in wanted if name.startswith(b"ack ")]
    assert imported.history.ack_lsn.tolist() == acks
    without_discards = replay(bytearray(base), imported, len(log))
    final = disk.read_bytes()
    for flags, offset, length, _ in wanted:
        if flags & DISCARD:  # what the device reads there is its own affair
            final = final[:offset] + bytes(length) + final[offset + length :]
    assert without_discards == final

    again = tmp_path / "again"
    write_log(imported.certain, again)
    assert again.read_bytes() == path.read_bytes()[: again.stat().st_size]


def test_ext4_acks_are_durable_at_their_marks(guest, programs, tmp_path):
    """A file system between: each record is durable, by the log alone, where its ack stands."""
    image = tmp_path / "mkfs"
    image.touch()
    os.truncate(image, DISK)
    subprocess.run([str(find_tool("mkfs.ext4")), "-q", "-F", image], check=True)
    acks = 20
    script = "mount /dev/mapper/pc ext4\n"
    for lsn in range(1, acks + 1):
        script += f"append {4096} {lsn}\nmark ack {lsn}\n"
    script += "mark before umount\numount\n"
    base = image.read_bytes()
    start, disk, path = run_script(guest, programs, tmp_path, base, script)

    imported = import_log(path, base=start)
    assert imported.log.complete
    assert imported.log.doubts == ()
    assert imported.history.ack_lsn.tolist() == list(range(1, acks + 1))
    assert replay(bytearray(base), imported, len(imported.log)) == disk.read_bytes()
    for reading in (imported.cautious, imported.certain):
        r = reading.requests
        flush = r.kind == RequestKind.FLUSH
        for lsn, at in zip(imported.history.ack_lsn, imported.history.ack_ns, strict=True):
            flushed = r.submitted_ns[flush & (r.completed_ns < at)].max(initial=-1)
            durable = (r.fua & (r.completed_ns < at)) | (~flush & (r.completed_ns < flushed))
            record = pattern(4096, int(lsn))
            holds = [
                int(i)
                for i in np.flatnonzero(r.kind == RequestKind.WRITE)
                if record in reading.payload(int(i)).tobytes()
            ]
            assert len(holds) >= 1
            assert durable[holds[0]]
        assert (r.completed_ns[flush] != NEVER).all()
