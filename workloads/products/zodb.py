#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""ZODB's FileStorage: transaction.commit(); tend=pack|none."""

import adapter
import transaction
import ZODB
import ZODB.FileStorage
from BTrees.IOBTree import IOBTree
from ZODB.FileStorage.format import CorruptedError
from ZODB.POSException import POSError

SETTINGS = adapter.settings(tend="pack")


class Store:
    damaged = (POSError, CorruptedError)

    def __init__(self, folder: str) -> None:
        self._db = ZODB.DB(ZODB.FileStorage.FileStorage(f"{folder}/store.fs"))
        self._root = self._db.open().root()

    def put(self, number: int, value: bytes) -> None:
        if "values" not in self._root:
            self._root["values"] = IOBTree()
        self._root["values"][number] = value
        transaction.commit()

    def read(self) -> dict[int, bytes]:
        return dict(self._root["values"].items())

    def tend(self) -> None:
        if SETTINGS["tend"] == "pack":
            self._db.pack()


adapter.main(Store)
