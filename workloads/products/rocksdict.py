#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""RocksDB by rocksdict: a put with WriteOptions.sync; tend compacts."""

import adapter
from rocksdict import Options, Rdict, WriteOptions

SETTINGS = adapter.settings(sync="on")


class Store:
    damaged = (Exception,)

    def __init__(self, folder: str) -> None:
        self._db = Rdict(f"{folder}/store", Options(raw_mode=True))
        self._options = WriteOptions()
        self._options.sync = SETTINGS["sync"] == "on"

    def put(self, number: int, value: bytes) -> None:
        self._db.put(b"%d" % number, value, write_opt=self._options)

    def read(self) -> dict[int, bytes]:
        return {int(key): bytes(value) for key, value in self._db.items()}

    def tend(self) -> None:
        self._db.flush()
        self._db.compact_range(None, None)


adapter.main(Store)
