#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kyoto Cabinet: how=transaction (begin_transaction(hard)), or =synchronize(hard)."""

import adapter
import kyotocabinet
from kyotocabinet import DB

SETTINGS = adapter.settings(how="transaction", kind="kch")


class Store:
    damaged = (RuntimeError, kyotocabinet.Error)

    def __init__(self, folder: str) -> None:
        self._db = DB()
        self._do(self._db.open(f"{folder}/store.{SETTINGS['kind']}", DB.OWRITER | DB.OCREATE))

    def _do(self, done: bool) -> None:
        if not done:
            raise RuntimeError(str(self._db.error()))

    def put(self, number: int, value: bytes) -> None:
        if SETTINGS["how"] == "transaction":
            self._do(self._db.begin_transaction(True))
            self._do(self._db.set(b"%d" % number, value))
            self._do(self._db.end_transaction(True))
        else:
            self._do(self._db.set(b"%d" % number, value))
            self._do(self._db.synchronize(True))

    def read(self) -> dict[int, bytes]:
        return {int(key): self._db.get(key) for key in self._db}


adapter.main(Store)
