# SPDX-License-Identifier: Apache-2.0
"""A store whose library is for another language: a driver opens it, and does what lines ask for.

`build.sh` builds the drivers of drivers/ into build/programs.  One is started as `DRIVER
SETTING=VALUE... FOLDER`, opens the store in FOLDER, recovery and all, and then answers each line of
its standard input:

    create              makes the accounts
    move NUMBER         makes one transfer
    read                tells `account ID BALANCE` and `transfer NUMBER GIVER TAKER NOTE`
    run FIRST CLIENTS   makes transfers from FIRST on until it is killed, several at the same time;
                        says `? N` and `+ N` on POWERCUT_FD itself, so that nothing delays an ack

`ok` ends each answer, and opening has one, too.  `damaged WHY` instead says that the store, in its
own words, is damaged; `trouble WHY` is anything else.  At the end of its input the driver closes
the store and exits.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import bank
from bank import DamagedError, Transfer

from powercut_program import Session

OURS = frozenset({"clients", "binary", "after_error"})
BUILT = Path(__file__).resolve().parents[2] / "build" / "programs"
NOT_THE_STORE = re.compile(
    "cannot allocate memory|out ?of ?memory|no space left|too many open files|create.* thread",
    re.IGNORECASE,
)
NEVER = "(?!)"
CLOSING_S = 60.0


class Driven:
    """A product whose driver is `name`; `panic` finds its own word of a crash in what it printed.

    The settings of the command line go to the driver, but for OURS; `before` is what runs it, if it
    is no program by itself.
    """

    def __init__(
        self,
        name: str,
        settings: Mapping[str, str],
        *,
        panic: str = NEVER,
        before: Sequence[str] = (),
    ) -> None:
        self._name = name
        self._panic = re.compile(panic, re.MULTILINE)
        self._binary = Path(settings["binary"] or BUILT / name)
        passed = [f"{key}={value}" for key, value in settings.items() if key not in OURS]
        self._before = before
        self._argv = [*before, str(self._binary), *passed]

    def create(self, folder: Path) -> None:
        (folder / "store").mkdir()
        with self.open(folder) as opened:
            opened.ask("create")

    def exists(self, folder: Path) -> bool:
        return (folder / "store").is_dir()

    @contextmanager
    def open(self, folder: Path) -> Iterator[Open]:
        if not self._binary.exists():
            bank.stop(
                f"{self._binary} is not installed; remedy: workloads/programs/build.sh {self._name}"
            )
        for tool in self._before[:1]:
            if shutil.which(tool) is None:
                bank.stop(f"{tool} is not installed, and runs {self._binary}")
        with tempfile.TemporaryFile() as log:
            driver = subprocess.Popen(
                [*self._argv, str(folder / "store")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=[int(os.environ["POWERCUT_FD"])],
                encoding="utf-8",
                errors="replace",
            )
            try:
                yield Open(driver, lambda: self._last_words(driver, log))
                assert driver.stdin is not None
                driver.stdin.close()
                if driver.wait(CLOSING_S):
                    self._last_words(driver, log)
            finally:
                driver.kill()
                driver.wait()

    def _last_words(self, driver: subprocess.Popen[str], log: object) -> None:
        """Deals with a driver that ended.  Raises DamagedError if it crashed over its store."""
        status = driver.wait(CLOSING_S)
        log.seek(0)
        said = log.read().decode(errors="replace")
        crash = self._panic.search(said)
        if crash and not NOT_THE_STORE.search(said):
            raise DamagedError(f"{self._name} says: {said[crash.start() :][:300]}")
        bank.stop(f"{self._name} ended with status {status}; it said: {said[-1200:]}")


class Open:
    """A driver that has opened its store; `ended` deals with one that has gone."""

    def __init__(self, driver: subprocess.Popen[str], ended: Callable[[], None]) -> None:
        self._driver = driver
        self._ended = ended
        self._answer()

    def ask(self, line: str) -> list[str]:
        """The lines of an answer.  Raises DamagedError."""
        assert self._driver.stdin is not None
        try:
            print(line, file=self._driver.stdin, flush=True)
        except BrokenPipeError:
            self._ended()
        return self._answer()

    def _answer(self) -> list[str]:
        assert self._driver.stdout is not None
        lines = []
        for line in self._driver.stdout:
            text = line.rstrip("\n")
            word, _, rest = text.partition(" ")
            if word == "ok":
                return lines
            if word == "damaged":
                raise DamagedError(rest)
            if word == "trouble":
                bank.stop(rest)
            lines.append(text)
        self._ended()
        raise AssertionError("a driver that has ended was dealt with")

    def last(self) -> int:
        return max((one.number for one in self.read()[1]), default=0)

    def teller(self) -> Callable[[Transfer], None]:
        def move(wanted: Transfer) -> None:
            self.ask(f"move {wanted.number}")

        return move

    def read(self) -> tuple[dict[int, int], list[Transfer]]:
        balances, transfers = {}, []
        for line in self.ask("read"):
            word, _, rest = line.partition(" ")
            if word == "account":
                number, amount = rest.split(" ")
                balances[int(number)] = int(amount)
            else:
                number, giver, taker, note = rest.split(" ", 3)
                transfers.append(Transfer(int(number), int(giver), int(taker), note))
        return balances, transfers


def work(opened: Open, session: Session, clients: int) -> None:
    """Has the driver make transfers until it is killed."""
    first = opened.last() + 1
    session.atomic()
    session.ready()
    opened.ask(f"run {first} {clients}")
    sys.exit("a driver has stopped making transfers")
