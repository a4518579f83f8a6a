# SPDX-License-Identifier: Apache-2.0
"""A program that keeps numbers durable in a log, and whose fault comes late, if at all.

    python3 far_program.py FAULT AT COUNT DIR     makes 1 to COUNT durable, then ends

`sync`: from operation AT on nothing is synced.  `compaction`: once the log has AT bytes it is
replaced by a shorter one, which is renamed before it was synced.  `honest-compaction` syncs it
first; `none` never replaces it.  It needs no package.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

RECORD = 256


def main(fault: str, at: int, count: int, folder: str) -> None:
    lines, place = int(os.environ["POWERCUT_FD"]), os.open(folder, os.O_RDONLY)
    path = f"{folder}/log"
    log = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    os.fsync(log)
    os.fsync(place)
    os.write(lines, b"ready\n")
    for number in range(1, count + 1):
        os.write(lines, f"? {number}\n".encode())
        os.write(log, f"{number:<{RECORD - 1}}\n".encode())
        if fault != "sync" or number < at:
            os.fdatasync(log)
        if fault.endswith("compaction") and os.fstat(log).st_size >= at:
            os.close(log)
            log = os.open(f"{path}.new", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            os.write(log, f"{f'1-{number}':<{RECORD - 1}}\n".encode())
            if fault == "honest-compaction":
                os.fsync(log)
            Path(f"{path}.new").rename(path)
            os.fsync(place)
        os.write(lines, f"+ {number}\n".encode())


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
