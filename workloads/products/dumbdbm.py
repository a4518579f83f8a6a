#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Python's dbm.dumb: sync()."""

import dbm.dumb

import adapter


class Store:
    damaged = (dbm.dumb.error, SyntaxError, ValueError)

    def __init__(self, folder: str) -> None:
        self._db = dbm.dumb.open(f"{folder}/store")

    def put(self, number: int, value: bytes) -> None:
        self._db[b"%d" % number] = value
        self._db.sync()

    def read(self) -> dict[int, bytes]:
        return {int(key): self._db[key] for key in self._db.keys()}  # noqa: SIM118


adapter.main(Store)
