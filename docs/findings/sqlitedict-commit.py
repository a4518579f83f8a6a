#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""sqlitedict: commit(blocking=True), "Persist all data to disk", syncs nothing.

strace counts the syncs of ten commits: what was written and never synced is what a power cut takes.
The twin has PRAGMA synchronous=EXTRA."""

import importlib.metadata
import shutil
import subprocess
import sys
import tempfile

STORE = """
import sys
from sqlitedict import SqliteDict
store = SqliteDict(sys.argv[1])
if sys.argv[2] == "twin":
    store.conn.execute("PRAGMA synchronous=EXTRA")
for number in range(10):
    store[number] = "value"
    store.commit(blocking=True)
"""


def syncs(name):
    with tempfile.TemporaryDirectory() as folder:
        command = ["strace", "-f", "-o", f"{folder}/calls", "-e", "trace=fsync,fdatasync"]
        subprocess.run([*command, sys.executable, "-c", STORE, f"{folder}/store", name], check=True)
        with open(f"{folder}/calls") as calls:
            count = sum("sync(" in line for line in calls)
    print(f"{name}: {count} syncs in 10 acknowledged commits{'' if count else ': all are LOST'}")
    return count


try:
    print("sqlitedict", importlib.metadata.version("sqlitedict"))
except importlib.metadata.PackageNotFoundError:
    print("sqlitedict is not installed: pip install sqlitedict")
    sys.exit(77)
if shutil.which("strace") is None:
    print("strace is not installed")
    sys.exit(77)
assert syncs("twin") >= 10
sys.exit(0 if syncs("as-it-is") else 1)
