#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Berkeley DB: a transaction, recovery at the start."""

import adapter
from bsddb3 import db

FLAGS = db.DB_CREATE | db.DB_INIT_TXN | db.DB_INIT_LOG | db.DB_INIT_LOCK | db.DB_INIT_MPOOL


class Store:
    damaged = (db.DBError,)

    def __init__(self, folder: str) -> None:
        self._environment = db.DBEnv()
        self._environment.open(folder, FLAGS | db.DB_RECOVER)
        self._db = db.DB(self._environment)
        self._db.open("store.db", None, db.DB_BTREE, db.DB_CREATE | db.DB_AUTO_COMMIT)

    def put(self, number: int, value: bytes) -> None:
        transaction = self._environment.txn_begin()
        self._db.put(b"%d" % number, value, transaction)
        transaction.commit()

    def read(self) -> dict[int, bytes]:
        return {int(key): value for key, value in self._db.items()}

    def tend(self) -> None:
        self._environment.txn_checkpoint(0, 0, db.DB_FORCE)


adapter.main(Store)
