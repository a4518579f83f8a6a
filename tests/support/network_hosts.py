# SPDX-License-Identifier: Apache-2.0
"""Hosts of a cluster, each with a network, processes and a home: namespaces of this one.

In each runs a real ssh server, reached over a pair of virtual network cards.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import ssh_hosts
from ssh_hosts import DROPBEAR, Home, host_key, openssh_host_key

from powercut.closing import Closing
from powercut.cluster.provision import guests
from powercut.cluster.wheels import make_wheels
from powercut.machine.guest.suite_packages import suite_packages
from powercut.paths import BUILD, CACHE

_PORT = 22
_INSIDE = """
ip link set lo up
mount --bind "$1" /root
shift
exec "$@"
"""

_OPENSSH = """
mount -t tmpfs -o mode=755 none /run
mkdir -m 755 /run/sshd
cp /etc/passwd /run/passwd
echo 'sshd:x:64999:64999::/run/sshd:/bin/false' >>/run/passwd
mount --bind /run/passwd /etc/passwd
LD_LIBRARY_PATH="$0/missing" exec "$0/usr/sbin/sshd" -D -e -f /dev/null -h "$1" -p "$2" \\
    -o UsePAM=no -o StrictModes=no -o PidFile=none -o AuthorizedKeysFile=/root/.ssh/authorized_keys
"""


def openssh_server(folder: Path) -> Path:
    """Debian's OpenSSH server, unpacked, with the libraries that this host lacks."""
    root = folder / "openssh"
    for package in suite_packages("bookworm", ("openssh-server",), CACHE):
        if package.name.startswith(("openssh-server", "lib")):
            _run("dpkg-deb", "-x", str(package), str(root))
    (root / "missing").mkdir()
    argv = ["ldd", str(root / "usr/sbin/sshd")]
    said = subprocess.run(argv, capture_output=True, text=True, check=True)
    for line in said.stdout.splitlines():
        name, _, where = line.strip().partition(" => ")
        if where == "not found":
            (found, *_) = root.rglob(name)
            shutil.copy(found, root / "missing" / name)
    return root


def missing() -> str:
    """Why there can be no such hosts here; empty if there can."""
    if why := ssh_hosts.missing():
        return why
    lost = [name for name in ("ip", "unshare", "nsenter") if shutil.which(name) is None]
    if lost:
        return f"no {', '.join(lost)}: apt-get install iproute2 util-linux"
    name = f"pct{os.getpid()}"
    made = _try("ip", "link", "add", name, "type", "veth", "peer", "name", f"{name}p")
    if made:
        return f"no network cards can be made here: {made}"
    _try("ip", "link", "del", name)
    return _try("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "true")


class NetworkHost(Closing):
    """One host.  `number` decides its network: 10.x.y.0/30.

    Its ssh server is dropbear, or OpenSSH's as `openssh_server` has unpacked it.
    """

    def __init__(
        self, folder: Path, home: Home, number: int, *, openssh: Path | None = None
    ) -> None:
        self.name = f"h{number}"
        self.home = folder / self.name
        (self.home / ".ssh").mkdir(parents=True)
        (self.home / ".ssh").chmod(0o700)
        shutil.copy(home.path / ".ssh" / "authorized_keys", self.home / ".ssh")
        make_key = host_key if openssh is None else openssh_host_key
        self.key, self.public = make_key(self.home)
        self._card = f"pc{os.getpid() % 100_000}n{number}"
        network = os.getpid() * 8 + number & 0xFFFF
        self._here, self.address = (f"10.{network >> 8}.{network & 255}.{n}" for n in (1, 2))
        self._log = (self.home / "ssh-server.txt").open("wb")
        argv = [DROPBEAR, "-F", "-E", "-s", "-m", "-r", str(self.key), "-p", str(_PORT)]
        argv += ["-P", str(self.home / "dropbear.pid")]
        if openssh is not None:
            argv = ["sh", "-ec", _OPENSSH, str(openssh), str(self.key), str(_PORT)]
        space = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        self._process = subprocess.Popen(
            ["unshare", *space, "sh", "-ec", _INSIDE, "sh", str(self.home), *argv],
            stdout=self._log,
            stderr=self._log,
        )
        self._plug_in()
        self._wait()

    @property
    def init(self) -> int:
        """The first process inside, once it is there."""
        path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        while self._process.poll() is None:
            if pids := path.read_text().split():
                return int(pids[0])
        raise RuntimeError(Path(self._log.name).read_text())

    def _plug_in(self) -> None:
        init = str(self.init)
        peer = ["type", "veth", "peer", "name", "eth0", "netns", init]
        _run("ip", "link", "add", self._card, *peer)
        _run("ip", "addr", "add", f"{self._here}/30", "dev", self._card)
        _run("ip", "link", "set", self._card, "up")
        inside = ["nsenter", "-t", init, "-n", "ip"]
        _run(*inside, "addr", "add", f"{self.address}/30", "dev", "eth0")
        _run(*inside, "link", "set", "eth0", "up")

    def _wait(self) -> None:
        while self._process.poll() is None:
            try:
                socket.create_connection((self.address, _PORT), timeout=1).close()
            except OSError:
                continue
            return
        raise RuntimeError(Path(self._log.name).read_text())

    def unplug(self) -> None:
        """Its network is gone; it goes on working, and nobody hears of it."""
        _run("ip", "link", "set", self._card, "down")

    def kill(self) -> None:
        """Every process in it is gone at once."""
        if self._process.poll() is None:
            os.kill(self.init, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Nothing of it is left but its home."""
        self.kill()
        self._log.close()
        _try("ip", "link", "del", self._card)  # gone with its other end


def hosts_yaml(folder: Path, home: Home, hosts: list[NetworkHost], **more: object) -> Path:
    """A hosts file, and a file of known hosts beside it."""
    known = "".join(f"{host.address} {' '.join(host.public.split()[:2])}\n" for host in hosts)
    (folder / "known").write_text(known)
    given = {"user": "root", "identity": home.path / ".ssh" / "id_ed25519", "known_hosts": "known"}
    defaults = ", ".join(f"{key}: {value}" for key, value in {**given, **more}.items())
    lines = "".join(f"  - {{name: {host.name}, address: {host.address}}}\n" for host in hosts)
    path = folder / "hosts.yaml"
    path.write_text(f"powercut-hosts: 1\ndefaults: {{{defaults}}}\nhosts:\n{lines}")
    return path


def _run(*argv: str) -> None:
    if why := _try(*argv):
        raise RuntimeError(f"{' '.join(argv)}: {why}")


def _try(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return "" if not done.returncode else done.stderr.strip() or "fails"


def make_ready(host: NetworkHost) -> None:
    """As `powercut doctor hosts prepare` leaves it, but for what takes minutes: its powercut is
    the one that runs the test, with the images that are there.
    """
    house = make_wheels()
    root = host.home / ".cache" / "powercut-cluster"
    version = root / "versions" / house.digest
    programs = version / "venv" / "bin"
    for folder in (root / "wheels", root / "build", programs):
        folder.mkdir(parents=True)
    for name in house.sha256:
        (root / "wheels" / name).symlink_to(house.folder / name)
    (root / guests()[1]).touch()
    (root / ".powercut-cluster").touch()
    (version / "ready").touch()
    given = f"POWERCUT_BUILD={shlex.quote(str(BUILD))} POWERCUT_CACHE={shlex.quote(str(CACHE))}"
    for name, argv in (("python", ""), ("powercut", " -m powercut.cli.main")):
        program = programs / name
        program.write_text(f'#!/bin/sh\n{given} exec {sys.executable}{argv} "$@"\n')
        program.chmod(0o755)
