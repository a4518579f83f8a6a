#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""semidbm: sync()."""

import adapter
import semidbm
from semidbm.exceptions import DBMError


class Store:
    damaged = (DBMError,)

    def __init__(self, folder: str) -> None:
        self._db = semidbm.open(f"{folder}/store", "c")

    def put(self, number: int, value: bytes) -> None:
        self._db[b"%d" % number] = value
        self._db.sync()

    def read(self) -> dict[int, bytes]:
        return {int(key): self._db[key] for key in self._db.keys()}  # noqa: SIM118

    def tend(self) -> None:
        self._db.compact()


adapter.main(Store)
