# SPDX-License-Identifier: Apache-2.0
"""A machine that powercut knows nothing of: a guest of QEMU's with a real ssh server.

It is small, busybox and dropbear; or a Debian system with OpenSSH, slower to start.  Its disk has a
volatile cache (the capture disk), which the switch drops with the power; it keeps what it is told
to flush, or lies about it.  The switch is a command of this host's, as for any foreign machine.
"""

from __future__ import annotations

import fcntl
import lzma
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import ssh_hosts
from patience import AMPLE_S
from ssh_hosts import DROPBEAR, Home, free_port, host_key, openssh_host_key
from switches import Switch

from powercut.closing import Closing
from powercut.disk.base import BaseImageSpec, ensure_base_image
from powercut.disk.capture import CaptureDisk
from powercut.disk.capture_config import CaptureConfig
from powercut.disk.root_image import ensure_root_image
from powercut.machine.guest.image import ensure_guest_image
from powercut.machine.guest.initramfs import (
    Entry,
    build_initramfs,
    character_device,
    directory,
    regular,
)
from powercut.machine.guest.kernel_package import ensure_kernel
from powercut.machine.qemu.tsc import host_tsc_khz
from powercut.model.contract import CutPolicy, DeviceContract, Honour
from powercut.paths import CACHE
from powercut_extras.suites.packages import suite_packages

_NETWORK = ("failover", "net_failover", "virtio_net")
_FOLDERS = ("bin", "data", "debian", "dev", "etc", "lib", "lib64", "modules", "proc", "root")
_FOLDERS += ("root/.ssh", "sys", "tmp")
_START = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir /dev/pts
mount -t devpts none /dev/pts
for module in {modules}; do insmod /modules/$module; done
ifconfig lo 127.0.0.1
ifconfig eth0 10.0.2.15
"""
_SMALL = """mount -t ext4 /dev/vda /data
exec dropbear -F -E -s -m -r /root/host-key >/dev/console 2>&1
"""
_DEBIAN = """mount -t ext4 -o ro /dev/vdb /debian
for folder in root run tmp; do mount -t tmpfs -o mode=755 none /debian/$folder; done
chmod 600 /root/host-key /root/.ssh/authorized_keys
cp -rp /root/.ssh /root/host-key /debian/root
echo "sshd:x:100:65534::/run/sshd:/usr/sbin/nologin" | cat /debian/etc/passwd - >/debian/run/passwd
mount --bind /debian/run/passwd /debian/etc/passwd
mkdir -m 755 /debian/run/sshd
mount -t ext4 /dev/vda /debian/mnt
for folder in dev proc sys; do mount --move /$folder /debian/$folder; done
sshd="/usr/sbin/sshd -D -e -f /dev/null -o UsePAM=no -h /root/host-key"
exec switch_root /debian $sshd >/dev/console 2>&1
"""
_PASSWD = b"root:x:0:0:root:/root:/bin/sh\n"
_SIZE = 64 << 20


def _modules() -> dict[str, bytes]:
    """What the guest's kernel needs for a network, of the package that it is from."""
    kernel = ensure_kernel("cloud", deadline=time.monotonic() + 300)
    kept = CACHE / "test-modules" / f"{kernel.package}_{kernel.version}"
    kept.mkdir(parents=True, exist_ok=True)
    with (kept.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        files = [kept / f"{name}.ko" for name in _NETWORK]
        if not all(file.exists() for file in files):
            _fetch(f"{kernel.package}={kernel.version}", kept)
    usual = [name for name in kernel.orders[""] if "console" not in name and "xfs" not in name]
    found = {name: (kernel.folder / "modules" / name).read_bytes() for name in usual}
    return found | {file.name: file.read_bytes() for file in files}


def unavailable() -> str:
    """Why there is no such machine here; empty if there is one."""
    if why := ssh_hosts.missing():
        return why
    if shutil.which("busybox") is None:
        return "no busybox: apt-get install busybox-static"
    try:
        _modules()
    except subprocess.CalledProcessError as error:
        return f"no network for the guest's kernel: {error.stderr.decode()[-200:]}"
    return ""


def _fetch(package: str, kept: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        argv = ["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package]
        subprocess.run(argv, cwd=folder, check=True, capture_output=True)
        (archive,) = folder.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", archive, folder / "root"], check=True)
        for module in _NETWORK:
            (found,) = (folder / "root").rglob(f"{module}.ko*")
            data = found.read_bytes()
            data = lzma.decompress(data) if found.suffix == ".xz" else data  # from Debian 13 on
            (kept / f"{module}.ko").write_bytes(data)


def _libraries(program: str) -> list[str]:
    said = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(0x", said)


def debian_root() -> Path:
    """Debian's OpenSSH, Python and all that they need, as an image: fetched once."""
    packages = suite_packages("bookworm", ("openssh-server", "python3"), CACHE)
    return ensure_root_image(packages, CACHE).path


def _initramfs(home: Home, key: Path, then: str) -> bytes:
    modules = _modules()
    entries = [directory(name) for name in _FOLDERS]
    entries += [character_device("dev/console", 5, 1)]
    start = (_START.format(modules=" ".join(modules)) + then).encode()
    entries += [regular("init", start, executable=True)]
    entries += [regular(f"modules/{name}", data) for name, data in modules.items()]
    programs = {"busybox": shutil.which("busybox"), "dropbear": DROPBEAR}
    for name, path in programs.items():
        entries.append(regular(f"bin/{name}", Path(path).read_bytes(), executable=True))
    for library in _libraries(DROPBEAR):
        place = "lib64" if "ld-linux" in library else "lib"
        name = f"{place}/{Path(library).name}"
        entries.append(regular(name, Path(library).read_bytes(), executable=True))
    entries.append(Entry("bin/sh", 0o120777, b"busybox"))
    entries += [regular("etc/passwd", _PASSWD), regular("root/host-key", key.read_bytes())]
    entries.append(regular("root/.ssh/authorized_keys", home.public_key.encode()))
    return build_initramfs(entries)


class ForeignGuest(Closing):
    """The machine, its disk and its switch."""

    def __init__(
        self,
        folder: Path,
        home: Home,
        *,
        lies: bool = False,
        debian: Path | None = None,
        lost: CutPolicy = CutPolicy.DROP,
    ) -> None:
        """It is on when this returns, though it may not answer yet.

        `lost` is what its switch takes of the disk's cache.

        `debian` is the image of a Debian system with an OpenSSH server; its data are in /mnt.
        Else the system is busybox with dropbear, and its data are in /data.
        """
        self.folder = folder
        key, public = host_key(folder) if debian is None else openssh_host_key(folder)
        self._root = debian
        self._lost = lost
        self.port = free_port()
        home.know("127.0.0.1", self.port, public)
        home.name("machine", "127.0.0.1", self.port)
        self._initramfs = folder / "initramfs"
        self._initramfs.write_bytes(_initramfs(home, key, _SMALL if debian is None else _DEBIAN))
        self._kernel = ensure_guest_image().kernel
        kept = Honour.IGNORED if lies else Honour.HONOURED
        self._contract = DeviceContract(volatile_cache=True, flush=kept, fua=kept)
        spec = BaseImageSpec("ext4", _SIZE)
        self._medium = shutil.copy(ensure_base_image(spec, CACHE), folder / "medium-0")
        self._disk: CaptureDisk | None = None
        self._qemu: subprocess.Popen[bytes] | None = None
        self.cuts = 0
        self.switch = Switch(folder, self)
        self.on()

    @property
    def is_on(self) -> bool:
        return self._qemu is not None

    def on(self) -> None:
        assert self._qemu is None, "it is on"
        number = self.cuts
        config = CaptureConfig(
            Path(self._medium), self.folder / f"log-{number}", self._contract, sockets=self.folder
        )
        self._disk = CaptureDisk(config)
        self._disk.start()
        khz = host_tsc_khz()
        words = f"console=ttyS0 quiet panic=-1 random.trust_cpu=on tsc_early_khz={khz or 0}"
        self._qemu = subprocess.Popen(
            [
                *("qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none"),
                *("-M", "pc", "-accel", "tcg", "-cpu", "max"),
                *("-m", "192" if self._root is None else "384"),
                *("-kernel", str(self._kernel), "-initrd", str(self._initramfs)),
                *("-append", f"{words} no_timer_check cryptomgr.notests"),
                *("-netdev", f"user,id=n,hostfwd=tcp:127.0.0.1:{self.port}-:22"),
                *("-device", "virtio-net-pci,netdev=n,romfile="),
                *("-blockdev", f"nbd,node-name=d,server.type=unix,server.path={self._disk.socket}"),
                *("-device", "virtio-blk-pci,drive=d"),
                *self._root_disk(),
                *("-serial", f"file:{self.folder / 'console'}"),
            ],
            stdin=subprocess.DEVNULL,
        )

    def _root_disk(self) -> tuple[str, ...]:
        if self._root is None:
            return ()
        drive = f"file={self._root},if=none,id=r,format=raw,readonly=on"
        return ("-drive", drive, "-device", "virtio-blk-pci,drive=r")

    def off(self) -> None:
        """Takes the machine away, and what its disk has not written down."""
        if self._qemu is None:
            return
        self._qemu.kill()
        self._qemu.wait()
        self._qemu = None
        disk, self._disk = self._disk, None
        assert disk is not None
        self.cuts += 1
        disk.cut(self._lost, 1, None, timeout_s=AMPLE_S)
        self._medium = self.folder / f"medium-{self.cuts}"
        disk.snapshot(self._medium)
        disk.close()

    def close(self) -> None:
        self.off()  # first: a disk ends with the thread that has started it
        self.switch.close()
