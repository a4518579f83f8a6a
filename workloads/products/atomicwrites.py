#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""python-atomicwrites: one file with all values, which atomic_write replaces."""

import os

import adapter
from atomicwrites import atomic_write


class Store:
    damaged = (ValueError,)

    def __init__(self, folder: str) -> None:
        self._path = f"{folder}/store"

    def put(self, number: int, value: bytes) -> None:
        values = {**self.read(), number: value}
        with atomic_write(self._path, mode="wb", overwrite=True) as file:
            file.write(b"".join(b"%d %s\n" % one for one in values.items()))

    def read(self) -> dict[int, bytes]:
        if not os.path.exists(self._path):
            return {}
        with open(self._path, "rb") as file:
            whole = file.read().split(b"\n")[:-1]  # a line that does not end is none
        lines = [line.partition(b" ") for line in whole]
        return {int(number): value for number, _, value in lines}


adapter.main(Store)
