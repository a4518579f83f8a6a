# SPDX-License-Identifier: Apache-2.0
"""The workers of a cluster: which are like this host, and what they are called to do.

A worker whose powercut or components are others than here gets no task: what it made could not
stand beside what others make.  Who comes later is looked at, and works with the others from then
on.  What a lost worker was at is done again by another: Dask does so, and where none is left that
may, `call` hands it out anew.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from typing import Any, Final, TypeVar

from powercut.model.errors import HostError
from powercut.model.events import Notice, RunEvent
from powercut_extras.cluster import worker
from powercut_extras.cluster.identity import Identity, differences
from powercut_extras.cluster.worker import Need

T = TypeVar("T")

_LOOK_S: Final = 1.0
_NOBODY_S: Final = 60.0
"""How long there may be no worker: one that a batch system has ended comes back."""

_FETCH_S: Final = 600.0
"""In which what a worker returned has come here: a recording at most."""

_AHEAD: Final = 2
"""Tasks for each thread, so that none waits for this host."""


class Cluster:
    """A client of Dask's, and the workers that may work for it."""

    def __init__(self, client: Any, name: str) -> None:
        self.name = name
        """As `--cluster` has it, from any folder."""

        self._client = client
        self._dask: Any = importlib.import_module("distributed")
        self._changing = threading.Condition()
        self._under_way = 0
        self._workers: dict[str, int] = {}
        self._looked = 0.0

    def open(
        self, need: Need, here: Identity, on_event: Callable[[RunEvent], None], hint: str
    ) -> None:
        """From now on only those work that are for `need` what this host is.

        Raises HostError if there is none, as `call` does later; `hint` says how to go on then.
        """
        self._need, self._here, self._on_event, self._hint = need, here, on_event, hint
        self._workers, self._looked = {}, 0.0
        self._ready()

    @property
    def threads(self) -> int:
        """Tasks that the workers do at the same time."""
        return sum(self._ready().values())

    def call(self, do: Callable[..., T], *given: Any) -> T:
        """What `do` returns on a worker; waits until one is free.

        From any number of threads.  Raises what `do` raises, and HostError where nothing comes
        of it.
        """
        with self._changing:
            while self._under_way >= _AHEAD * self.threads:
                self._changing.wait(_LOOK_S)
            self._under_way += 1
        try:
            while True:
                with contextlib.suppress(_NoAnswer):
                    returned: T = self._returned(do, given)
                    return returned
        finally:
            with self._changing:
                self._under_way -= 1
                self._changing.notify()

    def spread(self, value: T) -> T:
        """Stands for `value` in calls; each worker gets it once."""
        brought: T = self._client.scatter(value, hash=False)
        return brought

    def _returned(self, do: Callable[..., T], given: tuple[Any, ...]) -> Any:
        workers = self._ready()
        future = self._client.submit(do, *given, workers=list(workers), pure=False)
        done = threading.Event()
        future.add_done_callback(lambda _: done.set())
        try:
            while not done.wait(_LOOK_S):
                if not workers.keys() & self._ready().keys():
                    raise _NoAnswer
            return self._fetched(future)
        except worker.BegunAnew:
            with self._changing:
                self._workers, self._looked = {}, 0.0
            raise _NoAnswer from None
        except self._dask.KilledWorker as error:
            raise HostError(f"{self.name}: {error}", hint=self._hint) from None
        finally:
            future.cancel()

    def _fetched(self, future: Any) -> Any:
        """The result of a task that has ended."""
        if future.status != "error":
            try:
                return future.result(timeout=_FETCH_S)
            except (TimeoutError, CancelledError, UnboundLocalError):
                # Dask fetches several at once: one that is given up ends the others, by whichever.
                if future.cancelled():
                    raise self._gone(future._state.exception) from None
                if future.status != "error":
                    raise _NoAnswer from None
        return future.result()

    def _ready(self) -> Mapping[str, int]:
        """The threads of each worker that may work, by its address.  Raises HostError."""
        deadline = time.monotonic() + _NOBODY_S
        while not any((ready := self._look()).values()):
            if time.monotonic() > deadline or self._client.status != "running":
                who = "no worker is like this host" if ready else "it has no worker"
                raise HostError(f"{self.name}: {who}", hint=self._hint)
            time.sleep(_LOOK_S)
        return {address: threads for address, threads in ready.items() if threads}

    def _look(self) -> Mapping[str, int]:
        """The threads that each worker works with for this host: none where it takes no part."""
        with self._changing:
            if time.monotonic() < self._looked + _LOOK_S:
                return self._workers
            try:
                there = self._client.nthreads()
            except (OSError, ValueError, RuntimeError) as error:
                raise self._gone(error) from None
            self._workers = {
                address: self._workers[address]
                if address in self._workers
                else threads * self._is_alike(address)
                for address, threads in there.items()
            }
            self._looked = time.monotonic()
            return self._workers

    def _gone(self, error: object) -> HostError:
        return HostError(f"{self.name}: the scheduler is gone: {error}", hint=self._hint)

    def _is_alike(self, address: str) -> bool:
        try:
            there = self._client.run(worker.identity, self._need, workers=[address])[address]
            wrong = list(differences(self._here, there))
        except Exception as error:  # whatever keeps it from saying so keeps it from working
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            self._on_event(Notice(f"{address} takes no part: {'; '.join(wrong)}."))
        return not wrong


class _NoAnswer(Exception):
    """Who had the task has gone, or has begun anew."""
