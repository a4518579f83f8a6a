# SPDX-License-Identifier: Apache-2.0
"""The engine as the controller sees it: calls go out, text comes back, workers come and go.

The engine is a cluster of Dask's.  Its client is a process apart (powercut.cluster.dispatcher), and
what that says is JSON, checked against a schema here; nothing else of it gets in.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from powercut.closing import Closing
from powercut.cluster.node import Pem
from powercut.model.errors import HostError, UsageError
from powercut.model.named_path import openable
from powercut.paths import expanded
from powercut.sandbox.apart import start_apart

_LINE_MAX: Final = 64 << 20
_CONNECT_S: Final = 60.0
_BUFFER: Final = 1 << 18
_Text = Annotated[str, Field(max_length=256)]
URGENT: Final = 1
"""Priority of what others wait for."""


class EngineLost(HostError):
    """The scheduler, or the way to it, is gone."""


class CallFailed(HostError):
    """The engine could not have a call made: its worker died, or returned what is no text."""

    def __init__(self, why: str, worker: str = "") -> None:
        super().__init__(why)
        self.worker = worker


@dataclass(frozen=True)
class Address:
    """Where a scheduler listens, and how it is spoken to."""

    protocol: str
    host: str
    port: int
    pem: Pem | None = None
    folder: Path | None = None
    """Where the worker of this host keeps what it makes, if that is the only one."""

    @classmethod
    def parse(cls, text: str, pem: Pem | None = None) -> Address:
        """Raises UsageError."""
        try:
            parts = urlsplit(text)
            scheme, host, port = parts.scheme, parts.hostname, parts.port
        except ValueError:
            scheme, host, port = "", None, None
        if scheme not in {"tcp", "tls"} or not host or not port:
            raise UsageError(
                f"{text}: not the address of a Dask scheduler",
                hint="tcp://HOST:PORT or tls://HOST:PORT, as `dask scheduler` prints it",
            )
        if scheme == "tls" and pem is None:
            pem = configured_pem()
        return cls(scheme, host, port, pem)


def configured_pem() -> Pem:
    """What Dask's own configuration names.  Raises UsageError if it names nothing."""
    from dask import config  # noqa: PLC0415  takes a tenth of a second

    told = config.get("distributed.comm.tls", None) or {}
    client = told.get("client") or {}
    files = [told.get("ca-file"), client.get("cert"), client.get("key") or client.get("cert")]
    named = [str(file) for file in files if file]
    if len(named) < len(files):
        raise UsageError(
            "Dask is not configured for TLS",
            hint="set distributed.comm.tls.ca-file, .client.cert and .client.key in Dask's "
            "configuration (docs.dask.org, TLS/SSL)",
        )
    try:
        ca, certificate, key = (openable(expanded(file)).read_text() for file in named)
    except OSError as error:
        raise UsageError(f"{error.filename}: {error.strerror}") from None
    return Pem(ca=ca, certificate=certificate, key=key)


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class WorkerSeen(_Message):
    """A worker, as the scheduler describes it."""

    address: _Text
    name: _Text
    threads: Annotated[int, Field(ge=1, le=4096)]
    seen_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """Seconds since the scheduler last heard of it."""


class _Said(_Message):
    id: int
    worker: _Text
    text: str


class _Trouble(_Message):
    id: int
    trouble: Annotated[str, Field(max_length=4000)]
    worker: _Text = ""


class _Workers(_Message):
    workers: tuple[WorkerSeen, ...]


class _Gone(_Message):
    gone: Annotated[str, Field(max_length=4000)]


_LINE: Final = TypeAdapter[_Said | _Trouble | _Workers | _Gone](_Said | _Trouble | _Workers | _Gone)


@dataclass(frozen=True)
class Answer:
    """What came of a call, and the worker that made it."""

    text: str
    worker: str


class Engine(Closing):
    """One dispatcher.  Raises HostError if it cannot be started, EngineLost if nothing answers."""

    def __init__(self, address: Address | Callable[[], Address]) -> None:
        """A function may take its time to give the address, and raise HostError."""
        self.folder: Path | None = None
        self._calls: dict[int, Future[Answer]] = {}
        self._ids = itertools.count(1)
        self._changing = threading.Condition()
        self._sending = threading.Lock()
        self._workers: tuple[WorkerSeen, ...] | None = None
        self._news: Future[None] = Future()
        self._gone = ""
        self._line, theirs = socket.socketpair()
        self._joined: list[socket.socket] = []
        self._process: subprocess.Popen[bytes] | None = None
        try:
            with theirs:
                self._process = start_apart(
                    "powercut.cluster.dispatcher",
                    [str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                )
            address = address if isinstance(address, Address) else address()
            self.folder = address.folder
            pem = address.pem.model_dump() if address.pem else None
            self._send({"protocol": address.protocol, "pem": pem})
        except HostError:
            self.close()
            raise
        threading.Thread(target=self._accept, args=(address,), daemon=True).start()
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()
        with self._changing:
            self._changing.wait_for(lambda: self._gone or self._workers is not None, _CONNECT_S)
            if self._workers is None:
                why = self._gone or f"no answer within {_CONNECT_S:.0f} s"
        if self._workers is None:
            self.close()
            raise EngineLost(
                f"{address.protocol}://{address.host}:{address.port}: {why}",
                hint="does a Dask scheduler of the same release listen there?",
            )

    def call(
        self, call: str, text: str, workers: Sequence[str] = (), *, priority: int = 0
    ) -> Future[Answer]:
        """Has one of `workers`, by default any, do something (powercut.cluster.task).

        The future raises CallFailed or EngineLost.
        """
        future: Future[Answer] = Future()
        with self._changing:
            if self._gone:
                future.set_exception(EngineLost(self._gone))
                return future
            number = next(self._ids)
            self._calls[number] = future
        order = {"id": number, "call": call, "text": text, "workers": list(workers)}
        self._send({**order, "priority": priority})
        future.add_done_callback(lambda done: self._cancel(number) if done.cancelled() else None)
        return future

    @property
    def workers(self) -> tuple[WorkerSeen, ...]:
        """Those that the scheduler has at the moment.  Raises EngineLost."""
        with self._changing:
            if self._gone:
                raise EngineLost(self._gone)
            return self._workers or ()

    @property
    def news(self) -> Future[None]:
        """Done when the scheduler has next said which workers it has, or is gone."""
        with self._changing:
            return self._news

    def _cancel(self, number: int) -> None:
        with self._changing:
            self._calls.pop(number, None)
        self._send({"cancel": number})

    def _send(self, order: dict[str, object]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        try:
            with self._sending:
                self._process.stdin.write(json.dumps(order).encode() + b"\n")
                self._process.stdin.flush()
        except (OSError, ValueError):
            self._lose("the dispatcher has ended")

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            while line := process.stdout.readline(_LINE_MAX):
                try:
                    message = _LINE.validate_json(line)
                except ValidationError:
                    self._lose("the dispatcher says what makes no sense")
                    process.kill()
                    return
                self._take(message)
        self._lose("the dispatcher has ended")

    def _take(self, message: _Said | _Trouble | _Workers | _Gone) -> None:
        if isinstance(message, _Gone):
            self._lose(message.gone)
            return
        if isinstance(message, _Workers):
            with self._changing:
                news, self._news = self._news, Future()
                self._workers = message.workers
                self._changing.notify_all()
                if not news.done():  # the engine is lost already, and whoever waits was told
                    news.set_result(None)
            return
        with self._changing:
            future = self._calls.pop(message.id, None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if isinstance(message, _Said):
            future.set_result(Answer(message.text, message.worker))
        else:
            future.set_exception(CallFailed(message.trouble, message.worker))

    def _lose(self, why: str) -> None:
        with self._changing:
            self._gone = self._gone or why
            waiting = list(self._calls.values())
            self._calls.clear()
            self._changing.notify_all()
            if not self._news.done():
                self._news.set_result(None)
        for future in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(EngineLost(self._gone))

    def _accept(self, address: Address) -> None:
        """Joins each socket that the dispatcher sends with the scheduler, bytes as they are."""
        with contextlib.suppress(OSError):
            while (received := socket.recv_fds(self._line, 1, 1))[0]:
                for here in (socket.socket(fileno=one) for one in received[1]):
                    self._join(here, address)

    def _join(self, here: socket.socket, address: Address) -> None:
        try:
            there = socket.create_connection((address.host, address.port), _CONNECT_S)
        except OSError as error:
            self._lose(f"{address.host}:{address.port} cannot be reached: {error}")
            here.close()
            return
        there.settimeout(None)
        self._joined += [here, there]
        for one, other in ((here, there), (there, here)):
            threading.Thread(target=_pump, args=(one, other), daemon=True).start()

    def close(self) -> None:
        """The dispatcher ends, and whoever waits hears so."""
        self._lose("the run is over")
        with contextlib.suppress(OSError):
            self._line.shutdown(socket.SHUT_RDWR)
        for one in (self._line, *self._joined):
            one.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                assert pipe is not None
                with contextlib.suppress(OSError):
                    pipe.close()


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_BUFFER):
            target.sendall(data)
    for one in (source, target):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()
