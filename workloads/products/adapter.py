# SPDX-License-Identifier: Apache-2.0
"""A product's promise as a program under test: values by number, each made durable by one call.

An adapter has a class with three or four methods, and hands it to `main`:

    Store(folder)             opens the store, and makes it where it is not there
    .put(number, value)       returns once the product's manual says that the value is durable
    .read()                   the values that are there, by number
    .tend()                   (if it has one) compacts, packs or vacuums: after each eighth value

`damaged` of the class are the exceptions by which the product itself says that its store makes no
sense: they convict.  Any other exception ends the check, which is INCONCLUSIVE.

The word of=NAME-VERSION of the command line takes a package of requirements-older.txt.  The word
also=PATH makes the twin of a product that forgets a sync: the program itself syncs that file or
folder of the store after each value, before the value is acknowledged.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Protocol

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path = [one for one in sys.path if os.path.realpath(one or ".") != HERE]
BUILT = os.path.join(HERE, "../../build/products")
ALSO, OF = "also", "of"


def _words() -> dict[str, str]:
    return dict(word.split("=", 1) for word in sys.argv[1:-2] if "=" in word)


sys.path[:0] = [
    os.path.join(HERE, "../examples"),
    *(os.path.join(BUILT, "older", name) for word, name in _words().items() if word == OF),
    os.path.join(BUILT, "python"),  # packages.sh
]
import powercut_program  # it lies beside the examples
from powercut_program import Session

TENDED_EACH = 8


class Store(Protocol):
    """What an adapter offers."""

    def put(self, number: int, value: bytes) -> None: ...

    def read(self) -> Mapping[int, bytes]: ...


def value_of(number: int) -> bytes:
    """Each number has a value of its own, of another length than its neighbours'."""
    return b"value %d %s." % (number, b"x" * (number * 37 % 400))


def settings(**defaults: str) -> dict[str, str]:
    """The words NAME=VALUE of the command line over `defaults`."""
    given = {name: value for name, value in _words().items() if name not in (ALSO, OF)}
    if unknown := set(given) - set(defaults):
        sys.exit(f"{sys.argv[0]}: no setting {', '.join(sorted(unknown))}")
    return defaults | given


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def main(make: Callable[[str], Store]) -> None:
    """Does what the command line asks for."""
    powercut_program.main(_setup(make), _run(make), _check(make))


def _setup(make: Callable[[str], Store]) -> Callable[[str], None]:
    def setup(folder: str) -> None:
        make(folder).put(0, value_of(0))
        subprocess.run(["sync", "-f", folder], check=True)  # what `run` starts from is durable

    return setup


def _run(make: Callable[[str], Store]) -> Callable[[str, Session], None]:
    def run(folder: str, session: Session) -> None:
        store = make(folder)
        number = max(store.read()) + 1
        tend, also = getattr(store, "tend", None), _words().get(ALSO)
        session.ready()
        while True:
            session.trying(number)
            store.put(number, value_of(number))
            if tend is not None and number % TENDED_EACH == 0:
                tend()
            if also is not None:
                _sync(f"{folder}/{also}")
            session.durable(number)
            number += 1

    return run


def _check(make: Callable[[str], Store]) -> Callable[[str, Session], None]:
    def check(folder: str, session: Session) -> None:
        damaged: tuple[type[Exception], ...] = getattr(make, "damaged", ())
        try:
            found = make(folder).read()
        except damaged as error:
            session.bad(f"{type(error).__name__}: {' '.join(str(error).split())}"[:200])
            return
        for number, value in sorted(found.items()):
            if number and value == value_of(number):
                session.present(number)
            elif number:
                session.wrong(number, f"is {value[:40]!r}")

    return check
