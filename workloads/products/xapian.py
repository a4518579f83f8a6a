#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Xapian's glass: WritableDatabase.commit(); tend deletes, so that blocks are used again."""

import adapter
import xapian


class Store:
    damaged = (xapian.DatabaseError,)

    def __init__(self, folder: str) -> None:
        self._db = xapian.WritableDatabase(f"{folder}/store", xapian.DB_CREATE_OR_OPEN)

    def put(self, number: int, value: bytes) -> None:
        document = xapian.Document()
        document.add_term(f"Q{number}")
        document.set_data(b"%d %s" % (number, value))
        self._db.replace_document(f"Q{number}", document)
        self._db.commit()

    def read(self) -> dict[int, bytes]:
        found = {}
        for posting in self._db.postlist(""):
            number, _, value = self._db.get_document(posting.docid).get_data().partition(b" ")
            found[int(number)] = value
        return found


adapter.main(Store)
