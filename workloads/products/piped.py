#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A store of another language, which answers requests line by line: piped.py LANGUAGE/NAME.

packages.sh builds it; rust/src/lib.rs says which lines."""

import os
import subprocess
import sys

import adapter

BUILT = {"rust": "rust/debug", "go": "go", "node": "node", "java": "java"}


class Said(Exception):
    """What the store itself says: its folder makes no sense."""


class Store:
    damaged = (Said,)

    def __init__(self, folder: str) -> None:
        language, _, name = sys.argv[1].partition("/")
        built = os.path.join(adapter.BUILT, BUILT[language])
        self._program = subprocess.Popen(
            [os.path.join(built, name), folder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self._line()

    def _line(self) -> bytes:
        line = self._program.stdout.readline().rstrip(b"\n")
        if line.startswith(b"bad ") or not line:
            raise Said((line[4:] or self._program.stderr.read()[-150:]).decode(errors="replace"))
        return line

    def _ask(self, request: bytes) -> bytes:
        self._program.stdin.write(request + b"\n")
        self._program.stdin.flush()
        return self._line()

    def put(self, number: int, value: bytes) -> None:
        self._ask(b"put %d %s" % (number, value))

    def tend(self) -> None:
        self._ask(b"tend")

    def read(self) -> dict[int, bytes]:
        line, found = self._ask(b"read"), {}
        while line != b"end":
            number, _, value = line.partition(b" ")
            found[int(number)] = value
            line = self._line()
        return found


adapter.main(Store)
