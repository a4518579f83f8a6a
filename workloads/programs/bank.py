# SPDX-License-Identifier: Apache-2.0
"""A bank in any database: accounts whose sum never changes, and a record of each transfer.

A transfer is one transaction over three rows: one account gives, another takes, and a row says
so.  Everything in it follows from its number, so that `check` knows what it must find.  Several
clients work at the same time; numbers that fail are never used again.

A program of this folder makes a `Product` and calls `main`.

A check starts anew for a crash state, and to load modules takes longer than to look at a small
store: so what only `run` needs is loaded there, and what only describes types nowhere.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping

TYPE_CHECKING = False  # that of `typing`, which takes long to load
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import NoReturn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../examples"))
import powercut_program  # it lies beside the examples
from powercut_program import Session

ACCOUNTS = 16
BALANCE = 1000


Transfer = namedtuple("Transfer", ("number", "giver", "taker", "note"))


def transfer(number: int) -> Transfer:
    """The transfer that has this number."""
    giver = number % ACCOUNTS
    taker = (giver + 1 + number // ACCOUNTS % (ACCOUNTS - 1)) % ACCOUNTS
    return Transfer(number, giver, taker, f"transfer {number} " + "." * (number % 200))


class DamagedError(Exception):
    """The store says that it is damaged, or that it cannot be opened because of what is in it."""


class Bank:
    """What a store that is open can do."""

    def last(self) -> int:
        """The highest number of a transfer in it, 0 if there is none."""

    def teller(self) -> Callable[[Transfer], None]:
        """A connection of its own: makes a transfer, and returns once it is durable."""

    def read(self) -> tuple[Mapping[int, int], Iterable[Transfer]]:
        """All balances and all transfers.  Raises DamagedError."""


class Product:
    """What can be done with a store by its folder, which is what `place` of `main` makes of it."""

    def create(self, folder: Path | str) -> None:
        """Makes it: ACCOUNTS accounts with BALANCE each, no transfer."""

    def exists(self, folder: Path | str) -> bool:
        """Whether it was made there."""

    def open(self, folder: Path | str) -> AbstractContextManager[Bank]:
        """Opens it, recovery and all.  Raises DamagedError."""


def settings(**defaults: str) -> dict[str, str]:
    """`defaults`, as changed by the words NAME=VALUE of the command line."""
    known = dict(defaults)
    for word in sys.argv[1:-2]:
        name, sign, value = word.partition("=")
        if not sign or name not in known:
            names = " ".join(f"{name}={value}" for name, value in defaults.items())
            stop(f"{word}: no setting; there are {names}")
        known[name] = value
    return known


def stop(why: str) -> NoReturn:
    """Ends the program for a reason that is not the store's."""
    sys.exit(f"{os.path.basename(sys.argv[0])}: {why}")


def path(folder: str) -> Path:
    """What most products take."""
    from pathlib import Path

    return Path(folder)


def main(
    product: Product,
    clients: int,
    place: Callable[[str], Path | str] = path,
    work: Callable[[Bank, Session, int], None] | None = None,
) -> None:
    """What the command line asks for; `work` runs the clients, by default as threads."""

    def setup(folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        product.create(place(folder))

    def run(folder: str, session: Session) -> None:
        with product.open(place(folder)) as bank:
            (work or _work)(bank, session, clients)

    def check(folder: str, session: Session) -> None:
        if not product.exists(place(folder)):
            return
        try:
            with product.open(place(folder)) as bank:
                _examine(bank, session)
        except DamagedError as error:
            session.bad(" ".join(str(error).split()))

    powercut_program.main(setup, run, check)
    if sys.argv[-2] == "check":  # all is closed: to take the interpreter down takes as long again
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def _work(bank: Bank, session: Session, clients: int) -> None:
    import threading
    import traceback

    numbers = itertools.count(bank.last() + 1)
    tellers = [bank.teller() for _ in range(clients)]
    session.atomic()
    session.ready()

    def serve(teller: Callable[[Transfer], None]) -> None:
        try:
            for number in numbers:
                session.trying(number)
                teller(transfer(number))
                session.durable(number)
        except BaseException:  # a client that fails ends all of it
            traceback.print_exc()
            os._exit(1)

    threads = [threading.Thread(target=serve, args=[teller]) for teller in tellers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _examine(bank: Bank, session: Session) -> None:
    """Everything that must hold, whatever was lost; then the bank must still work."""
    before = _examine_once(bank, session.present, session)
    if before is None or "POWERCUT_AFTER" in os.environ:
        return  # what is wrong was said, or clients come who will make transfers of their own
    bank.teller()(transfer(max(before, default=0) + 1))
    after = _examine_once(bank, None, session)
    if after is not None and len(after) != len(before) + 1:
        session.bad(f"a transfer after recovery left {len(after)} transfers of {len(before) + 1}")


def _examine_once(
    bank: Bank, present: Callable[[int, int], None] | None, session: Session
) -> list[int] | None:
    """The numbers of the transfers that are there; None if something is wrong."""
    balances, transfers = bank.read()
    expected = dict.fromkeys(range(ACCOUNTS), BALANCE)
    numbers = []
    for found in transfers:
        expected[found.giver] = expected.get(found.giver, 0) - 1
        expected[found.taker] = expected.get(found.taker, 0) + 1
        if found == transfer(found.number):
            numbers.append(found.number)
        else:
            session.wrong(found.number, "other accounts or another note")
    for first, last in _spans(sorted(numbers)) if present else ():
        present(first, last)
    if dict(balances) != expected:
        total = sum(balances.values())
        session.bad(
            "the balances are not those that the transfers leave; "
            f"their sum is {total} of {ACCOUNTS * BALANCE}"
        )
        return None
    return numbers


def _spans(numbers: Iterable[int]) -> Iterable[tuple[int, int]]:
    first = last = None
    for number in numbers:
        if last is not None and number != last + 1:
            yield first, last
            first = None
        first = number if first is None else first
        last = number
    if last is not None:
        yield first, last
