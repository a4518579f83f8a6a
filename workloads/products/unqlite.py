#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""UnQLite: commit()."""

import adapter
import unqlite


class Store:
    damaged = (unqlite.UnQLiteError,)

    def __init__(self, folder: str) -> None:
        self._db = unqlite.UnQLite(f"{folder}/store.udb")

    def put(self, number: int, value: bytes) -> None:
        self._db[b"%d" % number] = value
        self._db.commit()

    def read(self) -> dict[int, bytes]:
        return {int(key): value for key, value in self._db}


adapter.main(Store)
