# SPDX-License-Identifier: Apache-2.0
"""Hosts that lack something, made of this one by namespaces, mounts and a seccomp filter.

Each shows first that it lacks it: else the command does not run, and its status is another.
"""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import memory_groups

from powercut.paths import BUILD, CACHE, ROOT

PROFILE = Path(__file__).with_name("container_profile.py")
POWERCUT = Path(sys.executable).parent / "powercut"
TIMEOUT_S = 300

LACKS = """
lacks() {
    if "$@" 2>/dev/null; then
        echo "this plays no such host: $* succeeds" >&2
        exit 99
    fi
}
"""

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
lacks test -e /dev/fuse
"""
"""A /dev without fuse and kvm."""

NOEXEC = f"""
mount --bind /tmp /tmp && mount -o remount,bind,noexec /tmp
mount --bind '{ROOT}' '{ROOT}' && mount -o remount,bind,exec '{ROOT}'
mount -t tmpfs -o noexec,size=64m shm /dev/shm
for folder in /tmp /dev/shm; do
    program=$(mktemp -p "$folder") && chmod +x "$program"
    lacks "$program"
    rm "$program"
done
"""
"""Nothing in /tmp and /dev/shm may be executed, nor be mapped so; /dev/shm is Docker's 64 MiB.  The
checkout may be, even if it lies in /tmp."""

READ_ONLY = f"""
mkdir -p "$WORK/build" "$WORK/cache" '{BUILD}' '{CACHE}'
mount --bind '{BUILD}' "$WORK/build"
mount --bind '{CACHE}' "$WORK/cache"
mount --bind '{ROOT}' '{ROOT}' && mount -o remount,bind,ro '{ROOT}'
lacks touch '{ROOT}/README.md'
"""
"""The checkout, which is the home as well, is read-only; what was built lies elsewhere."""


SMALL_MEMORY = 4 << 30


@contextlib.contextmanager
def _group() -> Iterator[Path]:
    """A control group of this test's own."""
    group = memory_groups.make(f"powercut-small-{os.getpid()}")
    try:
        yield group
    finally:
        memory_groups.remove(group)


def _be_small(group: Path) -> None:
    """From now on this process has one processor and 4 GiB."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    memory_groups.join(group, SMALL_MEMORY)


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
        script = f'set -e\n{LACKS}{self.mounts}\nexec "$@"'
        with _group() if self.small else contextlib.nullcontext() as group:
            return subprocess.run(
                [*alone, "sh", "-c", script, "sh", *user, *profile, *argv],
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout_s,
                cwd=cwd or self.work,
                env={**os.environ, "WORK": str(self.work), **self.environment},
                preexec_fn=functools.partial(_be_small, group) if group else None,
            )

    def powercut(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        """Runs this powercut there."""
        return self.run(POWERCUT, *argv)
