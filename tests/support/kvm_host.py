# SPDX-License-Identifier: Apache-2.0
"""A Debian 12 host that has KVM, slow and real: QEMU emulates a processor with AMD's SVM.

Its root is made of packages alone and holds a checkout of what is committed here; its image lies
in build/kvm-host and is made again when that changes.  Needs root, mmdebstrap and dropbear.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import bare_root
import ssh_hosts
from ssh_hosts import Home, free_port, host_key

from powercut.closing import Closing
from powercut.paths import BUILD, ROOT
from powercut_extras.suites.unpacked import suite_qemu

FOLDER = BUILD / "kvm-host"
QEMU_FROM = "sid"
"""The suite of the QEMU that emulates: Debian 12's is several times slower at it."""

_BOOT_S = 600
_BRING_S = 900
_MEMORY_MIB = 6144
_DISK = 24 << 30

_SYSTEM = """
set -eu
export DEBIAN_FRONTEND=noninteractive
printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d && chmod 755 /usr/sbin/policy-rc.d
apt-get -q update
apt-get -q -y install --no-install-recommends linux-image-amd64 initramfs-tools dropbear-bin \\
    zstd iproute2 git libvirt-daemon libvirt-daemon-driver-qemu libvirt-dev python3-dev \\
    pkg-config gcc
mkdir -p /etc/libvirt
"""

# What a trial would fetch is fetched here: the machine has no network but for ssh.
_CHECKOUT = f"""
set -eu
cd {ROOT}
./powercut doctor
.venv/bin/pip install -q --disable-pip-version-check -e '.[libvirt]'
.venv/bin/python - <<END
import time
from powercut.machine.guest.image import ensure_guest_image
from powercut_extras.suites.unpacked import suite_qemu
for flavour in ("cloud", "full"):
    ensure_guest_image(flavour)
suite_qemu("trixie", deadline=time.monotonic() + 900)
END
"""

_START = """#!/bin/bash
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm /run/lock
mount -t devpts none /dev/pts
for folder in /dev/shm /run /tmp; do mount -t tmpfs none $folder; done
mount -t cgroup2 none /sys/fs/cgroup
for module in kvm-amd virtio_net fuse loop; do modprobe $module; done
hostname kvm-host
ip link set lo up
card=$(ls /sys/class/net | grep -v lo)
ip address add 10.0.2.15/24 dev $card
ip link set $card up
dropbear -E -s -m -r /root/host-key
echo "the host is up"
while :; do sleep 60 & wait; done
"""


def missing() -> str:
    """Why there can be no such host here; empty if there can."""
    return bare_root.absent() or ssh_hosts.missing()


def commit() -> str:
    """What is committed here."""
    argv = ["git", "-C", ROOT, "rev-parse", "HEAD"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def _image() -> tuple[Path, Path, Path]:
    """The image of the host's root, its kernel and its initramfs: made if they are not there."""
    root, image, made = FOLDER / "root", FOLDER / "image", FOLDER / "image.commit"
    checkout = root / ROOT.relative_to("/")  # recordings name the paths of what they ran
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (FOLDER / "root.made").exists():
        subprocess.run(["rm", "-rf", "--one-file-system", root], check=True)
        if why := bare_root.make("debian-12", root):
            raise RuntimeError(why)
        _inside(root, _SYSTEM)
        subprocess.run(["git", "clone", "-q", ROOT, checkout], check=True)
        _make_keys(root)
        (FOLDER / "root.made").touch()
    if not made.exists() or made.read_text() != commit():
        made.unlink(missing_ok=True)
        image.unlink(missing_ok=True)
        git = ["git", "-C", checkout]
        subprocess.run([*git, "fetch", "-q", ROOT, commit()], check=True)
        subprocess.run([*git, "reset", "-q", "--hard", "FETCH_HEAD"], check=True)
        _inside(root, _CHECKOUT)
        (root / "kvm-host").write_text(_START)
        (root / "kvm-host").chmod(0o755)
        with image.open("wb") as file:
            file.truncate(_DISK)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, image], check=True)
        made.write_text(commit())
    (kernel,) = (root / "boot").glob("vmlinuz-*")
    (initramfs,) = (root / "boot").glob("initrd.img-*")
    return image, kernel, initramfs


def _make_keys(root: Path) -> None:
    """For ssh: the host knows one user's key, the user that of the host."""
    subprocess.run(["rm", "-rf", FOLDER / "home", FOLDER / "host-key"], check=True)
    home = Home.make(FOLDER / "home")
    key, public = host_key(FOLDER)
    (home.path / ".ssh" / "known_hosts").write_text(f"kvm-host {public}")
    shutil.copy(key, root / "root")
    keys = root / "root" / ".ssh"
    keys.mkdir(mode=0o700)
    shutil.copy(home.path / ".ssh" / "authorized_keys", keys)
    (keys / "authorized_keys").chmod(0o600)


def _inside(root: Path, script: str) -> None:
    log = FOLDER / "made.log"
    argv = bare_root.command_in(root, "bash", "-c", script)
    with log.open("ab") as file:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=3600, check=False
        )
    if done.returncode:
        raise RuntimeError(f"{log}: {log.read_text(errors='replace')[-3000:]}")


class KvmHost(Closing):
    """The host, which is up when it is made; commands go there by ssh."""

    def __init__(self) -> None:
        image, kernel, initramfs = _image()
        self._console = FOLDER / "console.log"
        self._home = FOLDER / "home"
        self._port = free_port()
        qemu = suite_qemu(QEMU_FROM, deadline=time.monotonic() + 900)
        self.version = qemu.version
        # Without tsc=reliable the kernel gives up the clock that guests read.
        words = "root=/dev/vda rw init=/kvm-host console=ttyS0 quiet tsc=reliable"
        self._qemu = subprocess.Popen(
            [
                *(qemu.program, "-nodefaults", "-no-user-config", "-display", "none"),
                *("-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "EPYC,+svm,+npt"),
                *("-smp", "2", "-m", f"{_MEMORY_MIB}M"),
                *("-kernel", kernel, "-initrd", initramfs, "-append", f"{words} panic=-1"),
                *("-no-reboot", "-serial", f"file:{self._console}"),
                *("-drive", f"file={image},format=raw,if=virtio,snapshot=on"),
                *("-netdev", f"user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:{self._port}-:22"),
                *("-device", "virtio-net-pci,netdev=n,romfile="),
            ],
            stdin=subprocess.DEVNULL,
        )
        try:
            self._wait()
        except BaseException:
            self.close()
            raise

    def _wait(self) -> None:
        deadline = time.monotonic() + _BOOT_S
        while time.monotonic() < deadline:
            if self._qemu.poll() is not None:
                raise RuntimeError(f"QEMU has ended: {self._console}")
            with suppress(subprocess.TimeoutExpired):
                if self.run("true", timeout_s=30).returncode == 0:
                    return
            time.sleep(1)
        raise RuntimeError(f"no ssh server answers: {self._console}")

    def _ssh(self, script: str) -> list[str]:
        folder = self._home / ".ssh"
        settings = ("BatchMode=yes", "HostKeyAlias=kvm-host", "ServerAliveInterval=60")
        settings += (f"UserKnownHostsFile={folder / 'known_hosts'}",)
        words = [word for setting in settings for word in ("-o", setting)]
        words += ["-i", str(folder / "id_ed25519"), "-p", str(self._port)]
        return ["ssh", "-F", "none", *words, "root@127.0.0.1", script]

    def run(self, script: str, *, timeout_s: float) -> subprocess.CompletedProcess[str]:
        """Runs a script there.  Raises TimeoutExpired; what it has begun there is killed then."""
        limited = f"timeout -k 5 {timeout_s:.0f} bash -c {shlex.quote(script)}"
        return subprocess.run(
            self._ssh(limited),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s + 30,
            check=False,
        )

    def fetch(self, there: Path, here: Path) -> None:
        """Brings the contents of a folder to a new one."""
        here.mkdir(parents=True)
        pack, unpack = self._ssh(f"tar -C {there} -Scf - ."), ["tar", "-C", str(here), "-Sxf", "-"]
        _pipe(pack, unpack)

    def send(self, here: Path, there: Path) -> None:
        """Leaves the contents of a folder in one that is there."""
        _pipe(["tar", "-C", str(here), "-Scf", "-", "."], self._ssh(f"tar -C {there} -Sxf -"))

    @property
    def ended(self) -> bool:
        """Whether the host is no more: QEMU ends when the host's kernel panics."""
        return self._qemu.poll() is not None

    def close(self) -> None:
        self._qemu.kill()
        self._qemu.wait()


def _pipe(one: list[str], other: list[str]) -> None:
    with subprocess.Popen(one, stdout=subprocess.PIPE) as sends:
        subprocess.run(other, stdin=sends.stdout, check=True, timeout=_BRING_S)
    assert sends.returncode == 0
