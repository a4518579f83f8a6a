#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""LevelDB by plyvel: put(sync=True); tend compacts."""

import adapter
import plyvel

SETTINGS = adapter.settings(sync="on")


class Store:
    damaged = (plyvel.CorruptionError, plyvel.IOError)

    def __init__(self, folder: str) -> None:
        self._db = plyvel.DB(f"{folder}/store", create_if_missing=True, write_buffer_size=1 << 16)

    def put(self, number: int, value: bytes) -> None:
        self._db.put(b"%d" % number, value, sync=SETTINGS["sync"] == "on")

    def read(self) -> dict[int, bytes]:
        return {int(key): value for key, value in self._db}

    def tend(self) -> None:
        self._db.compact_range()


adapter.main(Store)
