# SPDX-License-Identifier: Apache-2.0
"""Takes a recording on a host of a fleet: `python -m powercut.fleet.receive FOLDER`.

On standard input a zstd stream of a tar, as powercut.fleet.send writes it.  The folder is there
whole or not at all; one that is there already stays as it is.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import IO

from powercut.fleet.tar_stream import unpack
from powercut.model.errors import PowercutError
from powercut.store.files import host_errors, remove_tree


def receive(data: IO[bytes], folder: Path) -> None:
    """Raises DamagedRecording, HostError."""
    new = folder.with_name(f".{folder.name}.{os.getpid()}")
    remove_tree(new)
    try:
        with host_errors(folder):
            new.mkdir(parents=True)
        unpack(data, new)
        with host_errors(folder):
            if not folder.exists():
                new.rename(folder)
    finally:
        remove_tree(new)


def main() -> None:
    """For ssh: the fleet's folder is the one that it starts in."""
    try:
        receive(sys.stdin.buffer, Path(sys.argv[1]))
    except PowercutError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
