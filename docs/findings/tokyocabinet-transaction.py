#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tokyo Cabinet, TSYNC: the truncation of the log, which ends a transaction, is not synced.

A power cut after tchdbtrancommit has returned may leave the log as it was synced before.  The same
with the log truncated, as a sync of it would have it, loses nothing."""

import ctypes
import ctypes.util
import shutil
import sys
import tempfile

WRITER, CREATE, TSYNC = 1 << 1, 1 << 2, 1 << 6


def opened(tc, path):
    db = ctypes.c_void_p(tc.tchdbnew())
    assert tc.tchdbopen(db, path, WRITER | CREATE | TSYNC) & 1, "it does not open"
    return db


def committed_and_cut(tc, name, log_synced):
    path, after = (f"{tempfile.mkdtemp()}/store".encode() for _ in range(2))
    db = opened(tc, path)
    assert tc.tchdbtranbegin(db) & 1 and tc.tchdbput2(db, b"key", b"value") & 1
    shutil.copy(path + b".wal", path + b".synced")  # Tokyo Cabinet has synced it before the put
    assert tc.tchdbtrancommit(db) & 1  # acknowledged
    shutil.copy(path, after)  # cut here
    shutil.copy(path + (b".wal" if log_synced else b".synced"), after + b".wal")
    found = tc.tchdbget2(opened(tc, after), b"key")
    print(f"{name}: the acknowledged value is {'there' if found else 'LOST'}")
    return bool(found)


library = ctypes.util.find_library("tokyocabinet")
if library is None:
    print("Tokyo Cabinet is not installed: apt-get install libtokyocabinet9")
    sys.exit(77)
tc = ctypes.CDLL(library)
tc.tchdbnew.restype = tc.tchdbget2.restype = ctypes.c_void_p
print("Tokyo Cabinet", ctypes.c_char_p.in_dll(tc, "tcversion").value.decode())
assert committed_and_cut(tc, "truncation-synced", True)
sys.exit(0 if committed_and_cut(tc, "truncation-not-synced", False) else 1)
