# SPDX-License-Identifier: Apache-2.0
"""A bank in any database: accounts whose sum never changes, and a record of each transfer.

A transfer is one transaction over three rows: one account gives, another takes, and a row says
so.  Everything in it follows from its number, so that `check` knows what it must find.  Several
clients work at the same time; numbers that fail are never used again.

What happens after a transfer has failed is `after_error`, a setting of every program that has no
driver: `stop` ends the program.  `go-on` makes further transfers on the same connection, and on a
new one if that fails, too; `restart` ends all processes and starts anew on what is there, as a
supervisor does.

A program of this folder makes a `Product` and calls `main`.

A check starts anew for a crash state, and to load modules takes longer than to look at a small
store: so what only `run` needs is loaded there, and what only describes types nowhere.
"""

from __future__ import annotations

import os
import sys
import time
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
AFTER_ERROR = ("stop", "go-on", "restart")
PATIENCE_S = 5.0
"""So long after the last transfer that was made `go-on` gives up."""

STARTS = 4
"""How often `restart` does."""


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
    known = {"after_error": AFTER_ERROR[0]} | defaults
    for word in sys.argv[1:-2]:
        name, sign, value = word.partition("=")
        if not sign or name not in known:
            names = " ".join(f"{name}={value}" for name, value in known.items())
            stop(f"{word}: no setting; there are {names}")
        known[name] = value
    if known["after_error"] not in AFTER_ERROR:
        stop(f"after_error={known['after_error']}: it is one of {', '.join(AFTER_ERROR)}")
    _chosen["after_error"] = known["after_error"]
    return known


_chosen = {"after_error": AFTER_ERROR[0]}
"""Of the settings those that are every program's."""


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
        def start(numbers: Numbers) -> None:
            with product.open(place(folder)) as bank:
                if work is None:
                    _work(bank, session, clients, numbers)
                else:
                    work(bank, session, clients)

        if work is not None and _chosen["after_error"] != "stop":
            stop("its driver ends at an error: after_error is for the others")
        if _chosen["after_error"] == "restart":
            _start_again(start)
        else:
            start(Numbers())

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


class Numbers:
    """Those of transfers, in a memory that processes share; `made` is when one was durable."""

    def __init__(self) -> None:
        import mmap
        import struct
        import threading

        self._memory, self._layout = mmap.mmap(-1, mmap.PAGESIZE), struct.Struct("=Qd")
        self._lock = threading.Lock()

    def begin(self, last: int) -> bool:
        """Numbers begin after `last`; False if they have begun before."""
        if self._get()[0]:
            return False
        self._layout.pack_into(self._memory, 0, last + 1, time.monotonic())
        return True

    def next(self) -> int:
        """One that no process has had."""
        with self._lock:
            number, made = self._get()
            self._layout.pack_into(self._memory, 0, number + 1, made)
            return number

    def succeed(self) -> None:
        """A transfer was made."""
        with self._lock:
            self._layout.pack_into(self._memory, 0, self._get()[0], time.monotonic())

    @property
    def patient(self) -> bool:
        """Whether it is not long since a transfer was made."""
        return time.monotonic() < self._get()[1] + PATIENCE_S

    def _get(self) -> tuple[int, float]:
        return self._layout.unpack_from(self._memory)


def _start_again(start: Callable[[Numbers], None]) -> None:
    """Runs `start` in one process after the other: each is new, what it finds is not."""
    numbers = Numbers()
    for _ in range(STARTS):
        child = os.fork()
        if not child:
            try:
                start(numbers)
            except BaseException:
                _tell()
            finally:
                os._exit(1)
        os.waitpid(child, 0)


def _work(bank: Bank, session: Session, clients: int, numbers: Numbers) -> None:
    import threading

    tellers = [bank.teller() for _ in range(clients)]
    if numbers.begin(bank.last()):
        session.atomic()
        session.ready()

    ended = threading.Event()

    def serve(teller: Callable[[Transfer], None]) -> None:
        try:
            _serve(bank, teller, session, numbers, ended.is_set)
        except BaseException:
            _tell()
            if _chosen["after_error"] != "restart":
                os._exit(1)  # a client that fails ends all of it
        ended.set()

    threads = [threading.Thread(target=serve, args=[teller]) for teller in tellers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _serve(
    bank: Bank,
    teller: Callable[[Transfer], None],
    session: Session,
    numbers: Numbers,
    ended: Callable[[], bool],
) -> None:
    """Makes transfers, one after the other, until one fails that ends it."""
    failures = 0
    while not ended():
        number = numbers.next()
        session.trying(number)
        try:
            if failures > 1:
                teller = bank.teller()
            teller(transfer(number))
        except Exception:
            session.failed(number)
            if _chosen["after_error"] != "go-on" or not numbers.patient:
                raise
            time.sleep(0.02)
            failures += 1
        else:
            session.durable(number)
            numbers.succeed()
            failures = 0


def _tell() -> None:
    import traceback

    traceback.print_exc()


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
