#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tantivy, a search library of Rust, by its Python package: commit()."""

import os

import adapter
import tantivy

SCHEMA = tantivy.SchemaBuilder()
SCHEMA.add_integer_field("number", stored=True, indexed=True)
SCHEMA.add_bytes_field("value", stored=True)


class Store:
    damaged = (ValueError, OSError)

    def __init__(self, folder: str) -> None:
        os.makedirs(f"{folder}/store", exist_ok=True)
        self._index = tantivy.Index(SCHEMA.build(), f"{folder}/store")
        self._writer = None

    def put(self, number: int, value: bytes) -> None:
        if self._writer is None:
            self._writer = self._index.writer(15_000_000, 1)
        self._writer.add_document(tantivy.Document(number=number, value=value))
        self._writer.commit()

    def read(self) -> dict[int, bytes]:
        self._index.reload()
        searcher = self._index.searcher()
        hits = searcher.search(tantivy.Query.all_query(), limit=10_000).hits
        found = (searcher.doc(address) for _, address in hits)
        return {one["number"][0]: bytes(one["value"][0]) for one in found}


adapter.main(Store)
