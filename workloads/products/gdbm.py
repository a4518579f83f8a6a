#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""GNU dbm by Python's dbm.gnu: sync=each (the flag s), or =call (the method sync())."""

import dbm.gnu

import adapter

SETTINGS = adapter.settings(sync="call")


class Store:
    damaged = (dbm.gnu.error,)

    def __init__(self, folder: str) -> None:
        flags = "cs" if SETTINGS["sync"] == "each" else "c"
        self._db = dbm.gnu.open(f"{folder}/store.gdbm", flags)

    def put(self, number: int, value: bytes) -> None:
        self._db[b"%d" % number] = value
        if SETTINGS["sync"] == "call":
            self._db.sync()

    def read(self) -> dict[int, bytes]:
        return {int(key): self._db[key] for key in self._db.keys()}  # noqa: SIM118

    def tend(self) -> None:
        self._db.reorganize()


adapter.main(Store)
