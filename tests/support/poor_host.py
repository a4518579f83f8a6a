# SPDX-License-Identifier: Apache-2.0
"""Hosts that lack something, made of this one by namespaces, mounts and a seccomp filter."""

from __future__ import annotations

import contextlib
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


SMALL_MEMORY = 4 << 30


SMALL = {
    "memory.max": Path("/sys/fs/cgroup/powercut-small-host"),
    "memory.limit_in_bytes": Path("/sys/fs/cgroup/memory/powercut-small-host"),
}
"""Control groups, by how either version of them limits memory."""


def _be_small() -> None:
    """From now on this process has one processor and, where this host can say so, 4 GiB."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    for limit, group in SMALL.items():
        with contextlib.suppress(OSError):  # read-only, not root's, or of the other version
            group.mkdir(exist_ok=True)
            (group / limit).write_text(str(SMALL_MEMORY))
            (group / "cgroup.procs").write_text(str(os.getpid()))


@dataclass(frozen=True)
class PoorHost:
    """`mounts` is done in a namespace of its own; `container` adds Docker's profile to it.

    `small` leaves it one processor and 4 GiB.  `user` is an ordinary user's number: the commands
    are that user's, who owns `work`, and whom sudo, being setuid root, cannot help.
    """

    work: Path
    mounts: str = ""
    container: bool = False
    small: bool = False
    user: int = 0
    environment: dict[str, str] = field(default_factory=dict)

    def run(
        self, *argv: str | Path, cwd: Path | None = None, timeout_s: float = TIMEOUT_S
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command there."""
        alone = ["unshare", "--mount", "--propagation", "private"]
        alone += [] if os.geteuid() == 0 else ["--map-root-user"]
        user = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        user = [*user, "--no-new-privs"] if self.user else []
        profile = [sys.executable, PROFILE] if self.container else []
        script = f'set -e\n{self.mounts}\nexec "$@"'
        done = subprocess.run(
            [*alone, "sh", "-c", script, "sh", *user, *profile, *argv],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
            cwd=cwd or self.work,
            env={**os.environ, "WORK": str(self.work), **self.environment},
            preexec_fn=_be_small if self.small else None,
        )
        for group in SMALL.values() if self.small else ():
            with contextlib.suppress(OSError):
                group.rmdir()
        return done

    def powercut(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs this powercut there."""
        return self.run(POWERCUT, *argv)
