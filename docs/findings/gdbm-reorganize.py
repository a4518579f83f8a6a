#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GNU dbm: gdbm_sync after gdbm_reorganize does not make the rename durable, nor what comes after.

It calls msync, which is an fdatasync of the new file: its name is not covered.  A power cut leaves
the old file, and all that was synced since is gone.  The twin has the rename there."""

import os
import shutil
import subprocess
import sys
import tempfile

try:
    import dbm.gnu
except ImportError:
    print("dbm.gnu is not installed: apt-get install python3-gdbm")
    sys.exit(77)


def found_in(path):
    store = dbm.gnu.open(path, "r")
    return len(store.keys())


def after_the_cut(name, path):
    found = found_in(path)
    print(f"{name}: {found} of 20 acknowledged values")
    return found


package = ["dpkg-query", "--show", "--showformat", "${Version}", "libgdbm6"]
print("GNU dbm", subprocess.run(package, capture_output=True, text=True).stdout.partition("-")[0])
top = tempfile.mkdtemp()
path = f"{top}/store"
store = dbm.gnu.open(path, "c")
for number in range(10):
    store[b"%d" % number] = b"value"
    store.sync()
os.link(path, f"{top}/before")  # the file that has the name before the rename
store.reorganize()
for number in range(10, 20):
    store[b"%d" % number] = b"value"
    store.sync()  # acknowledged
# cut here: the old file was durable under that name; no sync has covered the rename over it
shutil.copy(path, f"{top}/twin")
assert after_the_cut("rename-synced", f"{top}/twin") == 20
lost = after_the_cut("rename-not-synced", f"{top}/before") < 20
shutil.rmtree(top)
sys.exit(1 if lost else 0)
