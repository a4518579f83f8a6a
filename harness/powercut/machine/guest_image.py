# SPDX-License-Identifier: Apache-2.0
"""The small guest that machines boot, as files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class GuestImage:
    """A small guest: kernel, initramfs with the agent as PID 1, and what they are.

    `digest` changes whenever any of its bytes does; `package` names the kernel's package and
    its version, and is empty if there was none.
    """

    kernel: Path
    initramfs: Path
    kernel_release: str
    digest: str
    package: str = ""
