#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""SQLite4's log-structured store by lsm-db: LSM_SAFETY_FULL; tend=flush|none."""

import adapter
import lsm

SETTINGS = adapter.settings(tend="flush")


class Store:
    damaged = (OSError, ValueError)

    def __init__(self, folder: str) -> None:
        settings = {"write_safety": lsm.SAFETY_FULL, "transaction_log": True}
        self._db = lsm.LSM(f"{folder}/store.lsm", **settings)

    def put(self, number: int, value: bytes) -> None:
        self._db[b"%d" % number] = value

    def read(self) -> dict[int, bytes]:
        return {int(key): bytes(value) for key, value in self._db}

    def tend(self) -> None:
        if SETTINGS["tend"] == "flush":
            self._db.flush()
            self._db.work()
            self._db.checkpoint(1)


adapter.main(Store)
