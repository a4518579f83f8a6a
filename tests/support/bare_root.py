# SPDX-License-Identifier: Apache-2.0
"""Bare root file systems of Linux distributions, and commands in them as in a container.

    python bare_root.py ROOT COMMAND...

As in a container, the root is a mount point of a mount namespace of its own, and the kernel, the
network and the devices are this host's.  Needs root and mmdebstrap.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

_MNT_DETACH = 2
_TIMEOUT_S = 3600
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CERTIFICATES = "etc/ssl/certs/ca-certificates.crt"
UBUNTU_KEYS = "usr/share/keyrings/ubuntu-archive-keyring.gpg"


@dataclass(frozen=True)
class Distribution:
    """`suite` names it to its mirror; `may_be_old`: its lists expire, and mirrors lag behind."""

    suite: str
    ubuntu: bool = False
    may_be_old: bool = False


DISTRIBUTIONS = {
    "debian-12": Distribution("bookworm"),
    "debian-13": Distribution("trixie"),
    "debian-sid": Distribution("sid", may_be_old=True),
    "ubuntu-24.04": Distribution("noble", ubuntu=True),
}


def absent() -> str:
    """Why none can be made here; empty if some can."""
    return "" if shutil.which("mmdebstrap") else "no mmdebstrap (apt-get install mmdebstrap)"


def make(name: str, folder: Path) -> str:
    """Makes in `folder` a root with apt and nothing else; says why not, or nothing."""
    one = DISTRIBUTIONS[name]
    more = ['--aptopt=Acquire::Check-Valid-Until "false"'] if one.may_be_old else []
    if one.ubuntu:
        keys = folder.with_name("keys")  # Debian vouches for them with a package
        if why := _mmdebstrap("--variant=extract", "--include=ubuntu-keyring", "trixie", str(keys)):
            return why
        more = [f"--keyring={keys / UBUNTU_KEYS}", "--components=main,universe"]
    return _mmdebstrap("--variant=apt", "--include=ca-certificates", *more, one.suite, str(folder))


def _mmdebstrap(*arguments: str) -> str:
    done = subprocess.run(
        ["mmdebstrap", "--quiet", *arguments], capture_output=True, text=True, check=False
    )
    return done.stderr.strip() if done.returncode else ""


def command_in(root: Path, *argv: str) -> list[str]:
    """The command that runs `argv` in `root`."""
    alone = ["unshare", "--mount", "--propagation", "private"]
    return [*alone, sys.executable, __file__, str(root), *argv]


@dataclass(frozen=True)
class BareRoot:
    """One that was `made` at that time of the monotonic clock."""

    name: str
    path: Path
    made: float

    def run(self, script: str, log: Path) -> list[str]:
        """What `script` says there, line by line; it must end well."""
        command = command_in(self.path, "sh", "-c", script)
        said = []
        with (
            log.open("a") as kept,
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as process,
        ):
            late = threading.Timer(_TIMEOUT_S, process.kill)
            late.daemon = True  # else it outlives an interrupt
            late.start()
            assert process.stdout is not None
            for line in process.stdout:
                kept.write(f"{time.monotonic() - self.made:7.1f} {line}")
                kept.flush()
                said.append(line.rstrip())
            late.cancel()
        assert process.returncode == 0, f"{log}\n" + "\n".join(said[-60:])
        return said


def _enter(root: Path) -> None:
    """Makes `root` the root, with this host's /proc, /dev and /sys, its names and certificates."""
    libc = ctypes.CDLL(None, use_errno=True)
    subprocess.run(["mount", "--bind", root, root], check=True)
    for name in ("proc", "dev", "sys"):
        (root / name).mkdir(exist_ok=True)
        subprocess.run(["mount", "--rbind", f"/{name}", root / name], check=True)
    for name in ("etc/resolv.conf", _CERTIFICATES):
        if Path("/", name).exists():
            shutil.copyfile(Path("/", name), root / name)
    os.chdir(root)
    if libc.syscall(155, b".", b".") or libc.umount2(b".", _MNT_DETACH):  # pivot_root(2)
        raise OSError(ctypes.get_errno(), "pivot_root, umount2")
    os.chdir("/")


def main() -> None:
    """Enters the root, becomes the command."""
    _enter(Path(sys.argv[1]))
    environment = {"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"}
    environment["PIP_CERT"] = f"/{_CERTIFICATES}"
    os.execvpe(sys.argv[2], sys.argv[2:], environment)


if __name__ == "__main__":
    main()
