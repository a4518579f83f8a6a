# SPDX-License-Identifier: Apache-2.0
"""The hosts of a run: workers of the engine that are as this host is take part, others are named.

The engine says which workers there are.  Each is welcomed: gets the files that the run needs, and
says what it is.  One that is gone is waited for a while, for it may be started again; then it is
lost.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Future,
    ThreadPoolExecutor,
    wait,
)
from pathlib import Path
from typing import Final, TypeVar

from pydantic import ValidationError

from powercut.closing import Closing
from powercut.cluster.engine import URGENT, Answer, CallFailed, Engine, WorkerSeen
from powercut.cluster.identity import differences
from powercut.cluster.messages import (
    CHUNK,
    Begin,
    Chunk,
    Hello,
    Listing,
    Message,
    Paths,
    Trouble,
    Wanted,
    context_of,
)
from powercut.model.errors import HostError, PowercutError
from powercut.model.events import Notice, RunEvent
from powercut.store.fleet import HostAccount, State

SILENCE_S: Final = 120.0
"""A worker of which the scheduler has not heard for so long is lost."""

RETURN_S: Final = 20.0
"""How long a worker that is gone is waited for."""

_HELLO_S: Final = 1800.0
_CALL_S: Final = 300.0
_FIRST_S: Final = 60.0
TOGETHER_S: Final = 5.0
"""How long the others that are there get once one has a part: work is shared out to all."""

_LOOK_S: Final = 0.5
_WELCOMES: Final = 32

Said = TypeVar("Said", bound=Message)


class HostLost(HostError):
    """The host is gone, or could not do what was asked: it gets no more orders."""


class FalseClaim(HostError):
    """A host said what is not so."""


class ClusterHost:
    """One worker, and what became of it in the run that is made."""

    def __init__(self, engine: Engine, seen: WorkerSeen, number: int) -> None:
        self.engine = engine
        self.name = seen.name
        self.address = seen.address
        self.threads = seen.threads
        self.number = number
        self.folder = engine.folder
        """Powercut's folder there, if it is on this host and its files may be linked to."""

        self.state: State = "lost"
        self.reason = "it was not asked"
        self.processor = ""
        self.seconds = 0.0
        self.repeated = 0
        self.failures = 0
        self.gone_since: float | None = None

    @property
    def present(self) -> bool:
        """Whether it takes part."""
        return self.state == "took-part"

    @property
    def ready(self) -> bool:
        """Whether it can be given work at the moment."""
        return self.present and self.gone_since is None

    def account(self, trials: int, begun_again: int = 0) -> HostAccount:
        """What became of it; `trials` of its trials count, `begun_again` of which not at once."""
        return HostAccount(
            name=self.name,
            state=self.state,
            reason="" if self.present else self.reason,
            processor=self.processor,
            trials=trials,
            repeated=self.repeated,
            begun_again=begun_again,
            seconds=round(self.seconds, 3),
        )

    def ask(self, call: str, text: str, kind: type[Said], timeout_s: float = _CALL_S) -> Said:
        """Has this host, and no other, do something.  Raises HostLost, FalseClaim, EngineLost."""
        future = self.engine.call(call, text, [self.address], priority=URGENT)
        return parse(self.wait(future, timeout_s), kind)

    def wait(self, future: Future[Answer], timeout_s: float = _CALL_S) -> Answer:
        """The answer to what only this host was asked.  Raises HostLost, EngineLost."""
        asked, missed = self.address, time.monotonic()
        deadline = missed + timeout_s
        while True:
            try:
                return future.result(_LOOK_S)
            except TimeoutError:
                pass
            except (CallFailed, CancelledError) as error:
                raise HostLost(str(error)) from None
            now = time.monotonic()
            if any(one.address == asked for one in self.engine.workers):
                missed = now
            if now < deadline and now - missed <= RETURN_S and asked == self.address:
                continue
            future.cancel()
            late = now >= deadline
            raise HostLost(f"no answer within {timeout_s:.0f} s" if late else "its worker ended")

    def files(self, folder: str) -> dict[str, int]:
        """The files below a folder there, and their sizes.  Raises as `ask` does."""
        return self.ask("list", Paths(paths=(folder,)).model_dump_json(), Listing).files

    def read(self, path: str, size: int) -> Iterator[bytes]:
        """A file there.  Raises as `ask` does."""
        for offset in range(0, size, CHUNK):
            wanted = Wanted(path=path, offset=offset)
            chunk = self.ask("read", wanted.model_dump_json(), Chunk)
            try:
                data = base64.b64decode(chunk.data, validate=True)
            except ValueError:
                raise FalseClaim(f"{path}: what it sends is not base64") from None
            if len(data) != min(CHUNK, size - offset):
                raise FalseClaim(
                    f"{path}: it sends {len(data)} bytes of {min(CHUNK, size - offset)}"
                )
            yield data

    def has(self, path: str) -> bool:
        """Whether that is there.  Raises as `ask` does."""
        return bool(self.ask("has", Paths(paths=(path,)).model_dump_json(), Paths).paths)

    def bring(self, folder: str, members: Mapping[str, Path]) -> None:
        """Leaves files in a folder there; what is there already stays.  Raises as `ask` does."""
        names = {f"{folder}/{name}": source for name, source in members.items()}
        there = self.ask("has", Paths(paths=tuple(names)).model_dump_json(), Paths).paths
        for path, source in names.items():
            if path in there:
                continue
            mode, size, offset = source.stat().st_mode & 0o777, source.stat().st_size, 0
            with source.open("rb") as file:
                while (data := file.read(CHUNK)) or (not offset and not size):
                    text = base64.b64encode(data).decode()
                    chunk = Chunk(path=path, offset=offset, size=size, data=text, mode=mode)
                    self.ask("write", chunk.model_dump_json(), Paths)
                    offset += len(data)
                    if not size:
                        break


def parse(answer: Answer, kind: type[Said]) -> Said:
    """Raises HostLost for trouble there, FalseClaim for what makes no sense."""
    if answer.text.startswith('{"kind":"trouble"'):
        try:
            raise HostLost(Trouble.model_validate_json(answer.text).why or "it does not say why")
        except ValidationError:
            pass
    try:
        return kind.model_validate_json(answer.text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise FalseClaim(f"what it says makes no sense: {where}: {first['msg']}") from None


class Roster(Closing):
    """All hosts that the engine has shown since the run began."""

    def __init__(
        self,
        engine: Engine,
        here: Hello,
        begin: Callable[[ClusterHost], Begin],
        on_event: Callable[[RunEvent], None],
        take_back: Callable[[ClusterHost, str, bool], str],
    ) -> None:
        """`begin` may bring a host what it needs; `here` is what each has to be; `take_back`
        removes what a host made that is lost, or said what is not so, and says what becomes of it.
        """
        self.engine = engine
        self.hosts: tuple[ClusterHost, ...] = ()
        self._here = here
        self._begin = begin
        self._on_event = on_event
        self._take_back = take_back
        self._losing = threading.Lock()
        self._contexts: dict[str, str] = {}
        self._welcoming = ThreadPoolExecutor(_WELCOMES, thread_name_prefix="welcome")
        self._welcomes: set[Future[None]] = set()
        self._asked: dict[str, str] = {}
        self._looking = threading.Lock()
        self._looked = 0.0

    @property
    def present(self) -> list[ClusterHost]:
        """Those that take part."""
        return [host for host in self.hosts if host.present]

    @property
    def ready(self) -> list[ClusterHost]:
        """Those that can be given work at the moment."""
        return [host for host in self.hosts if host.ready]

    def at(self, address: str) -> ClusterHost | None:
        """The one with this address."""
        return next((host for host in self.hosts if host.address == address), None)

    def context(self, address: str) -> str:
        """What the run is called at an address."""
        return self._contexts[address]

    def open(self) -> None:
        """Waits for the first workers.  Raises HostError if none can take part."""
        deadline = time.monotonic() + _FIRST_S
        while news := self.news():
            if self.engine.workers or time.monotonic() >= deadline:
                break
            wait(news, deadline - time.monotonic(), FIRST_COMPLETED)
        self._wait_present()
        wait(self._welcomed(), TOGETHER_S)
        if not self.present:
            raise HostError(
                "no host of the cluster can take part: "
                + (
                    "; ".join(f"{host.name}: {host.reason}" for host in self.hosts) or "it has none"
                ),
                hint="start workers: dask worker ADDRESS, where powercut is installed",
            )

    def require_one(self, hint: str) -> None:
        """Raises HostError if no host has a part any more, nor may have one soon."""
        self._wait_present()
        if not self.present:
            reasons = "; ".join(f"{host.name}: {host.reason}" for host in self.hosts)
            raise HostError(f"no host of the cluster is left: {reasons}", hint=hint)

    def _wait_present(self) -> None:
        self.look()
        while not self.present and self._welcomed():
            wait(self.news(), _LOOK_S, FIRST_COMPLETED)
            self.look()

    def news(self) -> list[Future[None]]:
        """One of these is done as soon as workers come or go, or one has been welcomed."""
        return [self.engine.news, *self._welcomed()]

    def _welcomed(self) -> list[Future[None]]:
        """Those that are asked at the moment."""
        with self._looking:
            done = {one for one in self._welcomes if one.done()}
            self._welcomes -= done
            left = [*self._welcomes]
        for one in done:
            one.result()
        return left

    def look(self) -> None:
        """Sees who has come and who is gone.  Raises EngineLost."""
        seen = {one.name: one for one in self.engine.workers}
        with self._looking:
            if time.monotonic() - self._looked < _LOOK_S and self._looked:
                return
            self._looked = time.monotonic()
            known = {host.name: host for host in self.hosts}
            for name, one in seen.items():
                host = known.get(name)
                if host is None:
                    host = ClusterHost(self.engine, one, len(self.hosts) + 1)
                    self.hosts = (*self.hosts, host)
                if self._asked.get(name) != one.address and host.state != "distrusted":
                    self._asked[name] = one.address
                    host.address, host.threads = one.address, one.threads
                    host.gone_since = time.monotonic()  # until it has been welcomed
                    self._welcomes.add(self._welcoming.submit(self._welcome, host))
        for host in self.present:
            now = seen.get(host.name)
            if now is not None and now.seen_s <= SILENCE_S:
                continue
            if now is not None:
                self.lose(host, f"nothing was heard of it for {SILENCE_S:.0f} s")
            elif host.gone_since is None:
                host.gone_since = time.monotonic()
            elif time.monotonic() - host.gone_since > RETURN_S:
                self.lose(host, "its worker ended")

    def _welcome(self, host: ClusterHost) -> None:
        returns = host.present
        try:
            text = self._begin(host).model_dump_json()
            self._contexts[host.address] = context_of(text)
            hello = host.ask("hello", text, Hello, _HELLO_S)
            differing = list(differences(self._here, hello))
        except (PowercutError, OSError) as error:
            if returns:
                self.lose(host, str(error))
            else:
                self._say(host, "lost", str(error))
            return
        host.processor = hello.processor[:200]
        if differing and returns:
            self.lose(host, "; ".join(differing))
        elif differing:
            self._say(host, "refused", "; ".join(differing))
        else:
            host.state, host.reason, host.gone_since = "took-part", "", None

    def _say(self, host: ClusterHost, state: State, why: str) -> None:
        host.state, host.reason = state, why
        self._on_event(Notice(f"{host.name} takes no part: {why}."))

    def lose(self, host: ClusterHost, why: str, *, distrusted: bool = False) -> None:
        """A host has no more part in the run; `distrusted` if it said what is not so."""
        with self._losing:
            if not host.present:
                return
            host.state, host.reason = ("distrusted" if distrusted else "lost"), why
        then = self._take_back(host, why, distrusted)
        word = "is not believed" if distrusted else "takes no more part"
        self._on_event(Notice(f"{host.name} {word}: {why}. {host.repeated} of its {then}."))

    def close(self) -> None:
        """Nobody is welcomed any more."""
        self._welcoming.shutdown(wait=False, cancel_futures=True)
