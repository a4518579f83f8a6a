#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Turso's database by pyturso: COMMIT."""

import adapter
import turso


class Store:
    damaged = (turso.DatabaseError,)

    def __init__(self, folder: str) -> None:
        self._database = turso.connect(f"{folder}/store.db")
        columns = "number INTEGER PRIMARY KEY, value TEXT"
        self._database.execute(f"CREATE TABLE IF NOT EXISTS t ({columns})")
        self._database.commit()

    def put(self, number: int, value: bytes) -> None:
        self._database.execute("INSERT INTO t VALUES (?, ?)", (number, value.decode()))
        self._database.commit()

    def read(self) -> dict[int, bytes]:
        rows = self._database.execute("SELECT number, value FROM t").fetchall()
        return {number: value.encode() for number, value in rows}


adapter.main(Store)
