# SPDX-License-Identifier: Apache-2.0
"""One check of one state of a captured folder, in a sandbox that is gone afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from powercut.model.machine_identity import ANY_MACHINE, Boot
from powercut.model.observation import Observation
from powercut.recover.native.folder import FolderSandbox

_ANY_BOOT = ANY_MACHINE.boot_for("")


def check_folder(
    command: Sequence[str],
    state: Path,
    folder: Path,
    where: Path,
    boot: Boot = _ANY_BOOT,
    *,
    timeout_s: float,
) -> Observation:
    """What the `command` says; it finds the state at `folder`."""
    with FolderSandbox(command, folder, where, timeout_s=timeout_s) as sandbox:
        return sandbox(state, boot)
