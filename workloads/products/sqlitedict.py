#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""sqlitedict: commit(blocking=True); journal=DELETE|OFF|WAL..., sync=OFF|FULL."""

import sqlite3

import adapter
from sqlitedict import SqliteDict

SETTINGS = adapter.settings(journal="DELETE", sync="")


class Store:
    damaged = (sqlite3.DatabaseError,)

    def __init__(self, folder: str) -> None:
        self._dict = SqliteDict(f"{folder}/store.sqlite", journal_mode=SETTINGS["journal"])
        if SETTINGS["sync"]:  # its own is OFF
            self._dict.conn.execute(f"PRAGMA synchronous={SETTINGS['sync']}")

    def put(self, number: int, value: bytes) -> None:
        self._dict[str(number)] = value
        self._dict.commit(blocking=True)

    def read(self) -> dict[int, bytes]:
        return {int(key): value for key, value in self._dict.items()}


adapter.main(Store)
