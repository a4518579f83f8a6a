#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tokyo Cabinet's hash database with HDBOTSYNC: tranbegin, put, trancommit."""

import ctypes

import adapter

WRITER, CREATE, TSYNC = 1 << 1, 1 << 2, 1 << 6

tc = ctypes.CDLL("libtokyocabinet.so.9")
tc.tchdbnew.restype = tc.tchdbiternext2.restype = tc.tchdbget2.restype = ctypes.c_void_p
tc.tchdberrmsg.restype = ctypes.c_char_p


class Store:
    damaged = (RuntimeError,)

    def __init__(self, folder: str) -> None:
        self._db = ctypes.c_void_p(tc.tchdbnew())
        self._do(tc.tchdbopen(self._db, f"{folder}/store.tch".encode(), WRITER | CREATE | TSYNC))

    def _do(self, done: int) -> None:
        if not done & 1:
            raise RuntimeError(tc.tchdberrmsg(tc.tchdbecode(self._db)).decode())

    def put(self, number: int, value: bytes) -> None:
        self._do(tc.tchdbtranbegin(self._db))
        self._do(tc.tchdbput2(self._db, b"%d" % number, value))
        self._do(tc.tchdbtrancommit(self._db))

    def read(self) -> dict[int, bytes]:
        self._do(tc.tchdbiterinit(self._db))
        found = {}
        while key := tc.tchdbiternext2(self._db):
            name = ctypes.string_at(key)
            found[int(name)] = ctypes.string_at(tc.tchdbget2(self._db, name))
        return found


adapter.main(Store)
