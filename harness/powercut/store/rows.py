# SPDX-License-Identifier: Apache-2.0
"""trials.sqlite of a run: a row a trial, where a folder a trial would be too much.

A fleet's run of more than `ROWS_FROM` trials lists in its verdict.json, and keeps folders for, what
a reader will want to look at: every trial that lost something or came to nothing, every one of
which a checker said anything, and the first `LISTED` of each cell.  The others lost nothing, and
are rows here:

    cells    number, name, parameters (JSON), sample (a verdict.json of the cell)
    trials   cell, number, seed, verdict, acked, lost, host, seconds, manifest, result, exploration

`manifest` is the SHA-256 of the recording's manifest, which names the digest of each of its files:
the recording lies on `host` until it is fetched, and has to be that one.  `result` is what would
stand in the trial's verdict.json, without its defaults, as a zlib stream (RFC 1950) whose
dictionary is the cell's sample; `exploration` likewise its exploration.json, null if there is none.

The run's verdict.json, and a certificate, name the rows of each cell by their count and one digest:
SHA-256 over a line of JSON for each, in order of their numbers (`Row.line`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from pydantic import Field, ValidationError

from powercut.closing import Closing
from powercut.model.errors import DamagedRecording, HostError
from powercut.model.verdict import Verdict
from powercut.scenario.settings import Parameters
from powercut.store.record import Record
from powercut.store.sums import CellSums
from powercut.store.trial_result import TrialResult

ROWS: Final = "trials.sqlite"

ROWS_FROM: Final = 4096
"""Trials of a plan that all have folders."""

LISTED: Final = 32
"""Of each cell so many trials are listed whatever came of them."""

_SOUND: Final = (Verdict.SAFE, Verdict.SURVIVED)
_WRITTEN_AT_ONCE: Final = 1000
_TEXT_MAX: Final = 32 << 20

_TABLES: Final = """
CREATE TABLE cells (number INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL,
    parameters TEXT NOT NULL, sample BLOB);
CREATE TABLE trials (cell INTEGER NOT NULL, number INTEGER NOT NULL, seed INTEGER NOT NULL,
    verdict TEXT NOT NULL, acked INTEGER NOT NULL, lost INTEGER NOT NULL, host TEXT NOT NULL,
    seconds REAL NOT NULL, manifest BLOB NOT NULL, result BLOB NOT NULL, exploration BLOB,
    PRIMARY KEY (cell, number)) WITHOUT ROWID;
"""
_SCHEMA: Final = "SELECT type, name, tbl_name, sql FROM sqlite_master"
_QUERY_S: Final = 60.0  # none takes more than a second, but pages can lead in circles
_STEPS: Final = 10_000  # of SQLite's machine, between two looks at the clock
_OF_THE_HOST: Final = tuple(
    f"SQLITE_{name}" for name in ("FULL", "CANTOPEN", "IOERR", "READONLY", "BUSY", "LOCKED", "PERM")
)
_COLUMNS: Final = "number, seed, verdict, acked, lost, host, seconds, manifest, result, exploration"


class UnlistedTrials(Record):
    """Trials of a cell that lost nothing and are not listed one by one; see trials.sqlite."""

    trials: int = Field(gt=0)
    """How many."""

    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    """Digest over their rows."""


@dataclass(frozen=True, slots=True)
class Row:
    """A trial that lost nothing."""

    host: str
    seconds: float
    manifest: str
    """SHA-256 of the recording's manifest.json, 64 hex digits."""

    result: TrialResult
    text: bytes
    """The result as it is stored."""

    exploration: str = ""
    """Its exploration.json; empty if there is none."""

    @classmethod
    def of(
        cls, host: str, seconds: float, manifest: str, result: TrialResult, exploration: str = ""
    ) -> Self:
        """A new row."""
        text = result.model_dump_json(exclude_defaults=True).encode()
        return cls(host, seconds, manifest, result, text, exploration)

    @property
    def line(self) -> bytes:
        """What the digest covers of it: all of it."""
        told = self.result
        covered = [
            told.trial,
            told.seed,
            told.verdict.name.lower(),
            told.commits_acked,
            told.commits_lost,
            self.host,
            self.seconds,
            self.manifest,
            hashlib.sha256(self.text).hexdigest(),
            hashlib.sha256(self.exploration.encode()).hexdigest() if self.exploration else "",
        ]
        return json.dumps(covered, separators=(",", ":")).encode() + b"\n"


def fits_a_row(result: TrialResult) -> bool:
    """Whether this trial needs no look: it lost nothing, and nothing is said of it."""
    return (
        result.trial > LISTED
        and result.verdict in _SOUND
        and not result.findings
        and not result.commits_lost
        and result.loss is None
        and (result.states is None or not result.states.lossy)
    )


class TrialRows(Closing):
    """The rows of a run; for several threads."""

    def __init__(self, path: Path, database: sqlite3.Connection) -> None:
        self.path = path
        self._database = database
        self._using = threading.RLock()
        self._cells: dict[str, tuple[int, bytes]] = {}
        self._waiting: list[tuple[Any, ...]] = []

    @classmethod
    def write(cls, path: Path, cells: Mapping[str, Parameters]) -> Self:
        """For adding rows: those of an interrupted run, or none.

        Raises HostError, and DamagedRecording if they are of other cells.
        """
        with _errors(path):
            rows = cls(path, sqlite3.connect(path, check_same_thread=False))
            told = {name: parameters.model_dump_json() for name, parameters in cells.items()}
            database = rows._database
            if not database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                database.executescript(_TABLES)
                database.executemany(
                    "INSERT INTO cells (name, parameters) VALUES (?, ?)", told.items()
                )
                database.commit()
            if dict(database.execute("SELECT name, parameters FROM cells")) != told:
                raise DamagedRecording(
                    f"{path}: its trials are of other settings than the scenario asks for",
                    hint="the scenario was changed: start a new run",
                )
            rows._read_cells()
        return rows

    @classmethod
    def find(cls, run: Path) -> Self | None:
        """Those of the run in a folder, to be read; None if it has none.

        Raises DamagedRecording.
        """
        path = run / ROWS
        if not path.is_file():
            return None
        with _errors(path):
            address = f"{path.resolve().as_uri()}?mode=ro"
            rows = cls(path, sqlite3.connect(address, uri=True, check_same_thread=False))
            _bound(rows._database)
            rows._read_cells()
        return rows

    def close(self) -> None:
        """Idempotent.  Raises HostError if rows could not be written."""
        with self._using, _errors(self.path):
            try:
                self.flush()
            finally:
                self._database.close()

    def add(self, cell: str, row: Row) -> None:
        """Writes a row, soon; see `flush`.  Raises HostError."""
        told, text = row.result, row.text
        with self._using, _errors(self.path):
            number, sample = self._cells[cell]
            if not sample:
                self._cells[cell] = (number, sample := text)
                self._database.execute(
                    "UPDATE cells SET sample = ? WHERE number = ?", (sample, number)
                )
            values = (told.trial, told.seed, told.verdict.name.lower())
            counts = (told.commits_acked, told.commits_lost, row.host, row.seconds)
            more = _pack(row.exploration.encode(), sample) if row.exploration else None
            blobs = (bytes.fromhex(row.manifest), _pack(text, sample), more)
            self._waiting.append((number, *values, *counts, *blobs))
            if len(self._waiting) >= _WRITTEN_AT_ONCE:
                self.flush()

    def flush(self) -> None:
        """All that was added is durable on return.  Raises HostError."""
        with self._using, _errors(self.path):
            if self._waiting:
                marks = ", ".join("?" * (2 + _COLUMNS.count(",")))
                self._database.executemany(
                    f"INSERT INTO trials (cell, {_COLUMNS}) VALUES ({marks})", self._waiting
                )
                self._waiting.clear()
            self._database.commit()

    def drop_host(self, host: str) -> None:
        """Removes all that a host made.  Raises HostError."""
        with self._using, _errors(self.path):
            self.flush()
            self._database.execute("DELETE FROM trials WHERE host = ?", (host,))
            self._database.commit()

    def hosts(self) -> tuple[str, ...]:
        """The hosts that made them."""
        with self._using, _errors(self.path):
            self.flush()
            return tuple(
                name
                for (name,) in self._database.execute(
                    "SELECT DISTINCT host FROM trials ORDER BY host"
                )
            )

    @property
    def cells(self) -> tuple[str, ...]:
        """The names of the cells of the run."""
        return tuple(self._cells)

    def any_explored(self, cell: str) -> bool:
        """Whether crash states were explored of one of its trials.  Raises DamagedRecording."""
        query = "SELECT 1 FROM trials WHERE cell = ? AND exploration IS NOT NULL LIMIT 1"
        return bool(self._select(query, cell))

    def makers(self, cell: str) -> dict[int, str]:
        """The numbers of its trials, in order, and the hosts.  Raises DamagedRecording."""
        query = "SELECT number, host FROM trials WHERE cell = ? ORDER BY number"
        return dict(self._select(query, cell))

    def row(self, cell: str, number: int) -> Row | None:
        """That of one trial; None if it has none.  Raises DamagedRecording."""
        query = f"SELECT {_COLUMNS} FROM trials WHERE cell = ? AND number = ?"
        found = self._select(query, cell, number)
        return self._row(cell, found[0]) if found else None

    def of_cell(self, cell: str) -> Iterator[Row]:
        """Its rows, in order.  Raises DamagedRecording."""
        after = -1
        query = (
            f"SELECT {_COLUMNS} FROM trials WHERE cell = ? AND number > ? "
            f"ORDER BY number LIMIT {_WRITTEN_AT_ONCE}"
        )
        while found := self._select(query, cell, after):
            for values in found:
                yield self._row(cell, values)
            if not (isinstance(found[-1][0], int) and found[-1][0] > after):
                raise DamagedRecording(f"{self.path}: {cell}: its rows are in no order")
            after = found[-1][0]

    def _select(self, query: str, cell: str, *values: object) -> list[Any]:
        with self._using, _errors(self.path):
            self.flush()
            if cell not in self._cells:
                return []
            _end_in_time(self._database)
            try:
                return self._database.execute(query, (self._cells[cell][0], *values)).fetchall()
            finally:
                self._database.set_progress_handler(None, 0)  # what is written takes its time

    def _row(self, cell: str, values: tuple[Any, ...]) -> Row:
        """A row from its columns, which have to say what its result says."""
        number, seed, verdict, acked, lost, host, seconds, manifest, text, more = values
        sample = self._cells[cell][1]
        try:
            text = _unpack(text, sample)
            result = TrialResult.model_validate_json(text)
            exploration = "" if more is None else _unpack(more, sample).decode()
            row = Row(str(host), float(seconds), manifest.hex(), result, text, exploration)
        except (zlib.error, ValidationError, ValueError, TypeError, AttributeError) as error:
            raise DamagedRecording(f"{self.path}: {cell}, trial {number}: {error}") from None
        told = (result.trial, result.seed, result.verdict.name.lower())
        if told != (number, seed, verdict) or not fits_a_row(result):
            raise DamagedRecording(
                f"{self.path}: {cell}, trial {number}: it is not what its result says"
            )
        if (result.commits_acked, result.commits_lost) != (acked, lost):
            raise DamagedRecording(
                f"{self.path}: {cell}, trial {number}: its counts are not those of its result"
            )
        return row

    def _read_cells(self) -> None:
        found = self._database.execute("SELECT number, name, sample FROM cells")
        self._cells = {name: (number, sample or b"") for number, name, sample in found}


def add_rows(sums: CellSums, rows: Iterable[Row]) -> UnlistedTrials | None:
    """Adds what rows say to the sums of their cell; None if there are none."""
    digest, count = hashlib.sha256(), 0
    for row in rows:
        sums.add(row.result)
        digest.update(row.line)
        count += 1
    return UnlistedTrials(trials=count, sha256=digest.hexdigest()) if count else None


def _bound(database: sqlite3.Connection) -> None:
    """What a stranger's file may make us do: no view or index of its own, no giant value, an end.

    Raises sqlite3.DatabaseError.
    """
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _TEXT_MAX)
    _end_in_time(database)
    for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
        database.execute(f"PRAGMA {pragma}")
    found = database.execute(_SCHEMA).fetchmany(9)
    with contextlib.closing(sqlite3.connect(":memory:")) as ours:
        ours.executescript(_TABLES)
        if found != ours.execute(_SCHEMA).fetchall():
            raise sqlite3.DatabaseError("its tables are others")


def _end_in_time(database: sqlite3.Connection) -> None:
    """What is asked from here on is interrupted after `_QUERY_S`."""
    end = time.monotonic() + _QUERY_S
    database.set_progress_handler(lambda: time.monotonic() > end, _STEPS)


def _pack(text: bytes, sample: bytes) -> bytes:
    packer = zlib.compressobj(level=9, zdict=sample)
    return packer.compress(text) + packer.flush()


def _unpack(data: bytes, sample: bytes) -> bytes:
    return zlib.decompressobj(zdict=sample).decompress(data, _TEXT_MAX)


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """A file that is none of ours is damaged evidence; what the host does not let us is not."""
    try:
        yield
    except sqlite3.OperationalError as error:
        name: str = getattr(error, "sqlite_errorname", "")  # not there if Python itself complains
        if name == "SQLITE_INTERRUPT":
            raise DamagedRecording(f"{path}: it takes more than {_QUERY_S:g} s to read") from error
        if name.startswith(_OF_THE_HOST):
            raise HostError(
                f"{path}: {error}", hint="is there room, and may you write there?"
            ) from error
        raise DamagedRecording(f"{path}: not the trials of a run: {error}") from error
    except (sqlite3.Error, ValueError, TypeError) as error:
        raise DamagedRecording(f"{path}: not the trials of a run: {error}") from error
