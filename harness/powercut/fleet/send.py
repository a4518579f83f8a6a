# SPDX-License-Identifier: Apache-2.0
"""Sends a recording from a host of a fleet: `python -m powercut.fleet.send FOLDER [NAME]...`.

A zstd stream (RFC 8878) of a tar with the folder's plain files but for those named, which the one
who asks has.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from powercut.fleet.tar_stream import packed, tar_of


def stream_of(folder: Path, left_out: Collection[str]) -> Iterator[bytes]:
    """The stream.  Raises OSError."""
    members = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.name not in left_out
    }
    return packed(tar_of(members))


def main() -> None:
    """For ssh.  Raises OSError."""
    for data in stream_of(Path(sys.argv[1]), sys.argv[2:]):
        sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
