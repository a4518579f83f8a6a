#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""HDF5 by h5py: File.flush()."""

import adapter
import h5py
import numpy


class Store:
    damaged = (OSError, RuntimeError, KeyError)

    def __init__(self, folder: str) -> None:
        self._file = h5py.File(f"{folder}/store.h5", "a")

    def put(self, number: int, value: bytes) -> None:
        self._file[str(number)] = numpy.frombuffer(value, dtype="u1")
        self._file.flush()

    def read(self) -> dict[int, bytes]:
        return {int(name): self._file[name][()].tobytes() for name in self._file}


adapter.main(Store)
