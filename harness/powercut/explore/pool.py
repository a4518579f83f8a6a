# SPDX-License-Identifier: Apache-2.0
"""Hands out states to workers, in this process or in others.

The process that explores draws the states and hands them out in batches of neighbours, so
that what is found does not depend on how many workers there are.  A worker process ends when
its end of the pipe closes, and with it its engine: nothing is left even if the explorer is
killed.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from typing import Any, Final

from powercut.closing import ResourceOwner
from powercut.explore.work import Answered, Batch, Work
from powercut.explore.worker import LocalWorker
from powercut.model.errors import HostError

_END_S: Final = 10.0
_BATCH_S: Final = 3600.0  # a batch of states that all hang, twice

Pipe = multiprocessing.connection.Connection


class OneWorker:
    """A worker in this process, to be used like several of their own."""

    def __init__(self, worker: LocalWorker) -> None:
        self._worker = worker

    def answers(self, batches: Iterator[Batch]) -> Iterator[Answered]:
        """As `WorkerPool.answers`."""
        for batch in batches:
            yield 0, batch, self._worker.answer(batch)


class WorkerPool(ResourceOwner):
    """Worker processes.  A context manager: leaving it ends them."""

    def __init__(self, work: Work, jobs: int) -> None:
        super().__init__()
        self._work = work
        self._jobs = jobs
        self._context = multiprocessing.get_context("spawn")
        self._pipes: list[Pipe] = []

    def _open(self, stack: ExitStack) -> None:
        for number in range(self._jobs):
            work = replace(self._work, seed=self._work.seed + number)
            ours, theirs = self._context.Pipe()
            process = self._context.Process(target=_serve, args=(work, theirs), daemon=True)
            process.start()
            theirs.close()
            stack.enter_context(_Ending(process, ours))
            self._pipes.append(ours)
        for pipe in self._pipes:
            _receive(pipe)  # it has started, or says why not

    def answers(self, batches: Iterator[Batch]) -> Iterator[Answered]:
        """Each batch with its answers and the number of its worker, in the order of batches.

        Takes a batch whenever a worker is free.  Raises HostError if a worker dies.
        """
        numbered = enumerate(batches)
        busy: dict[Pipe, tuple[int, Batch]] = {}
        done: dict[int, Answered] = {}

        def hand_out(pipe: Pipe) -> None:
            number, batch = next(numbered, (0, None))
            if batch is not None:
                pipe.send(batch)
                busy[pipe] = (number, batch)

        for pipe in self._pipes:
            hand_out(pipe)
        following = 0
        while busy:
            ready = multiprocessing.connection.wait(list(busy), timeout=_BATCH_S)
            if not ready:
                raise HostError(f"no worker of the exploration answered in {_BATCH_S:g} s")
            for pipe in [pipe for pipe in busy if pipe in ready]:
                number, batch = busy.pop(pipe)
                done[number] = (self._pipes.index(pipe), batch, _receive(pipe))
                hand_out(pipe)
            while following in done:  # what is found first must not depend on who was faster
                yield done.pop(following)
                following += 1


class _Ending(AbstractContextManager[None]):
    """Ends a worker: in order, and if it does not listen, at once."""

    def __init__(self, process: Any, pipe: Pipe) -> None:
        self._process = process
        self._pipe = pipe

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        self._pipe.close()
        self._process.join(_END_S)
        if self._process.is_alive():
            self._process.kill()
            self._process.join(_END_S)
        self._process.close()


def _receive(pipe: Pipe) -> Any:
    try:
        answer = pipe.recv()
    except (EOFError, OSError) as error:
        raise HostError("a worker of the exploration died", hint="try --jobs 1") from error
    if isinstance(answer, BaseException):
        raise answer
    return answer


def _serve(work: Work, pipe: Pipe) -> None:
    """A worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the explorer, which ends us
    try:
        with LocalWorker(work) as worker:
            pipe.send("ready")
            while True:
                pipe.send(worker.answer(pipe.recv()))
    except (EOFError, BrokenPipeError):
        return
    except BaseException as error:
        with suppress(BrokenPipeError):  # the explorer has left: another worker failed first
            pipe.send(error)
