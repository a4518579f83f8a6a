# SPDX-License-Identifier: Apache-2.0
"""Hosts for ssh, as a test needs them: a home with keys, and a real ssh server on this host."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

DROPBEAR = shutil.which("dropbear") or "/usr/sbin/dropbear"
DROPBEARKEY = shutil.which("dropbearkey") or "/usr/bin/dropbearkey"
_PORTS = range(20_000, 32_000)
"""Below net.ipv4.ip_local_port_range."""

NEEDED = (DROPBEAR, DROPBEARKEY, "ssh-keygen")


def missing() -> str:
    """Why there is no ssh server here; empty if there is one."""
    lost = [name for name in NEEDED if shutil.which(name) is None]
    return f"no {', '.join(lost)}: apt-get install dropbear-bin openssh-client" if lost else ""


@dataclass(frozen=True)
class Home:
    """A user's ~/.ssh: one key, the hosts that are known, names for them."""

    path: Path

    @classmethod
    def make(cls, path: Path) -> Home:
        folder = path / ".ssh"
        folder.mkdir(parents=True)
        folder.chmod(0o700)
        _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / "id_ed25519"))
        shutil.copy(folder / "id_ed25519.pub", folder / "authorized_keys")
        (folder / "config").write_text("")
        (folder / "known_hosts").write_text("")
        return cls(path)

    @classmethod
    def own(cls, path: Path, patch: pytest.MonkeyPatch) -> Home:
        """Makes one that is this process's, with no agent."""
        patch.setenv("HOME", str(path))
        patch.delenv("SSH_AUTH_SOCK", raising=False)
        return cls.make(path)

    @property
    def public_key(self) -> str:
        return (self.path / ".ssh" / "id_ed25519.pub").read_text()

    def name(self, alias: str, host: str, port: int, *, user: str = "root") -> None:
        """Makes `alias` a name of the host."""
        with (self.path / ".ssh" / "config").open("a") as config:
            config.write(f"Host {alias}\n  HostName {host}\n  Port {port}\n  User {user}\n")
            config.write(f"  IdentityFile {self.path}/.ssh/id_ed25519\n")

    def know(self, host: str, port: int, public: str) -> None:
        """Trusts a host's key: `public` as in a .pub file."""
        kind, key, *_ = public.split()
        with (self.path / ".ssh" / "known_hosts").open("a") as known:
            known.write(f"[{host}]:{port} {kind} {key}\n")

    def forget(self) -> None:
        """Knows no host any more."""
        (self.path / ".ssh" / "known_hosts").write_text("")


def host_key(folder: Path) -> tuple[Path, str]:
    """A server's key in dropbear's format, and its public half."""
    path = folder / "host-key"
    said = _run(DROPBEARKEY, "-t", "ed25519", "-f", str(path))
    public = next(line for line in said.splitlines() if line.startswith("ssh-ed25519 "))
    return path, public


def openssh_host_key(folder: Path) -> tuple[Path, str]:
    """A server's key in OpenSSH's format, and its public half."""
    path = folder / "host-key"
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))
    return path, path.with_suffix(".pub").read_text()


def free_port() -> int:
    """One that a server may take a moment later: the kernel gives no such port to connections."""
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError("no port is free")


class SshServer:
    """dropbear on a port of this host's, for the user that runs the test."""

    def __init__(self, folder: Path, home: Home) -> None:
        self.key, self.public = host_key(folder)
        self.port = free_port()
        self._log = (folder / "dropbear.txt").open("wb")
        argv = [DROPBEAR, "-F", "-E", "-s", "-m", "-r", str(self.key)]
        argv += ["-p", f"127.0.0.1:{self.port}", "-P", str(folder / "dropbear.pid")]
        # It reads the keys of root's own home: that is another one in a namespace of its own.
        inside = (
            "mount -t tmpfs -o mode=700 none /root && mkdir -m 700 /root/.ssh && "
            'cp "$0" /root/.ssh/ && exec "$@"'
        )
        keys = str(home.path / ".ssh" / "authorized_keys")
        self._process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", inside, keys, *argv],
            stdout=self._log,
            stderr=self._log,
        )
        self._wait()

    def _wait(self) -> None:
        while self._process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except ConnectionRefusedError:
                continue
            return
        raise RuntimeError(Path(self._log.name).read_text())

    def kill_sessions(self, number: int) -> None:
        """Ends the processes that serve connections, and leaves the server."""
        path = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        for pid in path.read_text().split():
            os.kill(int(pid), number)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    return done.stdout
