# SPDX-License-Identifier: Apache-2.0
"""Hosts that lack something, made of this one by namespaces, mounts and a seccomp filter."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from powercut.paths import BUILD, CACHE, ROOT

PROFILE = Path(__file__).with_name("container_profile.py")
POWERCUT = Path(sys.executable).parent / "powercut"
TIMEOUT_S = 300

NO_FUSE = """
mkdir -p "$WORK/dev"
mount -t tmpfs -o mode=755 dev "$WORK/dev"
for name in null zero full random urandom tty; do
    touch "$WORK/dev/$name" && mount --bind "/dev/$name" "$WORK/dev/$name"
done
mkdir -p "$WORK/dev/shm"
mount --bind /dev/shm "$WORK/dev/shm"
ln -s /proc/self/fd "$WORK/dev/fd"
mount --rbind "$WORK/dev" /dev
"""
"""A /dev without fuse and kvm."""

NOEXEC = f"""
mount --bind /tmp /tmp && mount -o remount,bind,noexec /tmp
mount --bind '{ROOT}' '{ROOT}' && mount -o remount,bind,exec '{ROOT}'
mount -t tmpfs -o noexec,size=64m shm /dev/shm
"""
"""Nothing in /tmp and /dev/shm may be executed, nor be mapped so; /dev/shm is Docker's 64 MiB.  The
checkout may be, even if it lies in /tmp."""

READ_ONLY = f"""
mkdir -p "$WORK/build" "$WORK/cache" '{BUILD}' '{CACHE}'
mount --bind '{BUILD}' "$WORK/build"
mount --bind '{CACHE}' "$WORK/cache"
mount --bind '{ROOT}' '{ROOT}' && mount -o remount,bind,ro '{ROOT}'
"""
"""The checkout, which is the home as well, is read-only; what was built lies elsewhere."""


@dataclass(frozen=True)
class PoorHost:
    """`mounts` is done in a namespace of its own; `container` adds Docker's profile to it."""

    work: Path
    mounts: str = ""
    container: bool = False
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *argv: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Runs a command there."""
        alone = ["unshare", "--mount", "--propagation", "private"]
        alone += [] if os.geteuid() == 0 else ["--map-root-user"]
        profile = [sys.executable, PROFILE] if self.container else []
        script = f'set -e\n{self.mounts}\nexec "$@"'
        return subprocess.run(
            [*alone, "sh", "-c", script, "sh", *profile, *argv],
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
            cwd=cwd or self.work,
            env={**os.environ, "WORK": str(self.work), **self.environment},
        )

    def powercut(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs this powercut there."""
        return self.run(POWERCUT, *argv)
