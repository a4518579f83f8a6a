# SPDX-License-Identifier: Apache-2.0
"""Which QEMU runs a guest, named so exactly that a certificate can rest on it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError

PROGRAM: Final = "qemu-system-x86_64"
_TIMEOUT_S: Final = 20.0


@dataclass(frozen=True)
class QemuBuild:
    """One QEMU.

    `program` is what is started: the `binary` itself, or what starts it with its own
    libraries.  `version` is QEMU's (`11.1.3`), `package` what its packager calls it (empty if
    nobody does), `libraries` a digest of what it was unpacked with (empty: the host's).
    """

    program: Path
    binary: Path
    version: str
    package: str
    sha256: str
    libraries: str = ""

    @property
    def identity(self) -> tuple[str, ...]:
        return (self.version, self.package, self.sha256, self.libraries)

    def facts(self) -> dict[str, str]:
        """For whoever reads a result."""
        return {
            "program": str(self.program),
            "version": self.version,
            "package": self.package,
            "sha256": self.sha256,
        }


def find_qemu() -> Path:
    """The host's QEMU.  Raises HostError if it is not installed."""
    path = shutil.which(PROGRAM)
    if path is None:
        raise HostError(f"{PROGRAM} is not installed", hint="apt-get install qemu-system-x86")
    return Path(path)


def examine_qemu(program: Path, *, binary: Path | None = None, libraries: str = "") -> QemuBuild:
    """What the QEMU at `program` is; asked once for as long as its file stays the same.

    Raises HostError if it is none, or does not start.
    """
    binary = (binary or program).resolve()
    try:
        status = binary.stat()
    except OSError as error:
        raise HostError(f"no QEMU at {binary}: {error.strerror}") from None
    if not os.access(program, os.X_OK) or not program.is_file():
        raise HostError(f"no QEMU at {program}: it is not an executable file")
    return _examine(program, binary, libraries, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _examine(
    program: Path, binary: Path, libraries: str, _size: int, _modified_ns: int
) -> QemuBuild:
    version, package = parse_version(version_line(program))
    return QemuBuild(program, binary, version, package, binary_digest(binary), libraries)


def binary_digest(binary: Path) -> str:
    """SHA-256 of a program's file; read once for as long as it stays the same.

    Raises HostError if there is none.
    """
    binary = binary.resolve()
    try:
        status = binary.stat()
        return _digest(binary, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise HostError(f"no QEMU at {binary}: {error.strerror}") from None


@lru_cache(maxsize=64)
def _digest(binary: Path, _size: int, _modified_ns: int) -> str:
    with binary.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def version_line(program: Path | str = PROGRAM, *, timeout_s: float = _TIMEOUT_S) -> str:
    """The first line of `--version`.  Raises HostError if QEMU is missing or broken."""
    hint = "apt-get install --reinstall qemu-system-x86" if program == PROGRAM else ""
    try:
        done = subprocess.run(
            [str(program), "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=timeout_s,
        )
    except FileNotFoundError:
        raise HostError(
            f"there is no {program} on this host", hint="apt-get install qemu-system-x86"
        ) from None
    except subprocess.CalledProcessError as error:
        said = str(error.stderr).strip().splitlines()[-1:]
        why = f"{error}{': ' + said[0] if said else ''}"
        raise HostError(f"{program} does not work: {why}", hint=hint) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise HostError(f"{program} does not work: {error}", hint=hint) from None
    return done.stdout.splitlines()[0] if done.stdout else "version unknown"


def parse_version(line: str) -> tuple[str, str]:
    """QEMU's version and its packager's, from `QEMU emulator version 7.2.22 (Debian 1:7...)`.

    Raises HostError if that is not what it is.
    """
    match = re.fullmatch(r"QEMU emulator version (\d\S*)(?: \((.*)\))?", line.strip())
    if match is None:
        raise HostError(
            f"this is not QEMU: its --version says {line[:80]!r}",
            hint=f"give a {PROGRAM}",
        )
    return match[1], match[2] or ""
