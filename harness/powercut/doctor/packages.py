# SPDX-License-Identifier: Apache-2.0
"""The Debian packages that powercut runs: what the launcher installs, less what only builds."""

from __future__ import annotations

from typing import Final

NEEDED: Final = (
    *("qemu-system-x86", "nbdkit", "libnbd-bin", "xfsprogs", "e2fsprogs"),
    *("kmod", "lz4", "util-linux", "mount", "ca-certificates"),
)
"""Needed by every run."""

OPTIONAL: Final = ("user-mode-linux", "btrfs-progs", "qemu-utils", "busybox-static", "bubblewrap")
"""Without these something is missing that the doctor names."""
