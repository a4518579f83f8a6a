#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tdb, Samba's store: transaction_commit(); tend=repack."""

import os

import adapter
import tdb

SETTINGS = adapter.settings(tend="repack")


class Store:
    damaged = (RuntimeError, OSError)

    def __init__(self, folder: str) -> None:
        self._tdb = tdb.Tdb(f"{folder}/store.tdb", 0, tdb.DEFAULT, os.O_RDWR | os.O_CREAT, 0o600)

    def put(self, number: int, value: bytes) -> None:
        self._tdb.transaction_start()
        self._tdb.store(b"%d" % number, value)
        self._tdb.transaction_prepare_commit()
        self._tdb.transaction_commit()

    def read(self) -> dict[int, bytes]:
        return {int(key): self._tdb.get(key) for key in self._tdb}

    def tend(self) -> None:
        if SETTINGS["tend"] == "repack":
            self._tdb.repack()


adapter.main(Store)
