# SPDX-License-Identifier: Apache-2.0
"""A worker on another host, as this one sees it: orders go there, answers come, or nothing."""

from __future__ import annotations

import itertools
import json
import shlex
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from powercut.closing import Closing
from powercut.fleet.facts import CONNECT_S, at
from powercut.fleet.hosts_file import HostSettings
from powercut.fleet.messages import (
    BEATS,
    LINE_MAX,
    Done,
    Hello,
    Judged,
    Message,
    Opening,
    Order,
    PhaseOf,
    StateOrder,
    Study,
    Trouble,
    line_of,
)
from powercut.fleet.tar_stream import packed, tar_of
from powercut.machine.remote import Remote, RemoteCommand, last_line
from powercut.model.errors import HostError
from powercut.model.events import Phase

_WAIT_S: Final = 1.0
_BEGIN_S: Final = 60.0
_FETCH_S: Final = 1800.0


class HostLost(HostError):
    """The host is gone, or says what makes no sense: it gets no more orders."""


class TrialTrouble(HostError):
    """A trial could not be made there; the host goes on."""


class _Reply:
    """What comes of one order."""

    def __init__(
        self, notify: Callable[[Phase], None] = lambda _: None, wanted: type[Message] = Hello
    ) -> None:
        self.notify = notify
        self.wanted = wanted
        self.come = threading.Event()
        self.done: Message | None = None
        self.trouble = ""


class HostLink(Closing):
    """A connection to a host, and a worker there once `open` has returned."""

    def __init__(
        self, host: HostSettings, remote: Remote, version: str, *, silence_s: float
    ) -> None:
        self.host = host
        self.lost = ""
        self._remote = remote
        self._version = version
        self._silence_s = silence_s
        self._command: RemoteCommand | None = None
        self._hello = _Reply()
        self._replies: dict[int, _Reply] = {}
        self._ids = itertools.count(1)
        self._changing = threading.Lock()
        self._sending = threading.Lock()
        self._heard = time.monotonic()
        self._closed = threading.Event()

    def connect(self) -> None:
        """Raises HostError."""
        self._remote.connect(timeout_s=CONNECT_S)

    def open(self, opening: Opening | Study) -> Hello:
        """Starts a worker, for one run or one exploration.  Raises HostLost."""
        argv = ("python", "-m", "powercut.fleet.worker")
        self._command = self._remote.begin(at(self.host, self._version, *argv), timeout_s=_BEGIN_S)
        self._heard = time.monotonic()
        threading.Thread(target=self._listen, args=(self._command,), daemon=True).start()
        self._send(line_of("opening" if isinstance(opening, Opening) else "study", opening))
        threading.Thread(target=self._beat, daemon=True).start()
        self._wait(self._hello)
        assert isinstance(self._hello.done, Hello)
        return self._hello.done

    def make(self, order: Order, notify: Callable[[Phase], None]) -> Done:
        """Has a trial made.  Raises HostLost and TrialTrouble."""
        done = self._ask("order", order, _Reply(notify, Done))
        assert isinstance(done, Done)
        return done

    def judge(self, order: StateOrder) -> Judged:
        """Has a batch of crash states judged.  Raises HostLost and TrialTrouble."""
        done = self._ask("states", order, _Reply(wanted=Judged))
        assert isinstance(done, Judged)
        return done

    def _ask(self, kind: str, order: Message, reply: _Reply) -> Message:
        number = next(self._ids)
        with self._changing:
            self._replies[number] = reply
        try:
            self._send(line_of(kind, order.model_copy(update={"id": number})))
            self._wait(reply)
        finally:
            with self._changing:
                del self._replies[number]
        if reply.done is None:
            raise TrialTrouble(f"{self.host.name}: {reply.trouble}")
        return reply.done

    def has(self, folder: str) -> bool:
        """Whether that is there already.  Raises HostError."""
        script = f"cd && [ -e {shlex.quote(f'{self.host.folder}/{folder}')} ]"
        return not self._remote.run(script, timeout_s=CONNECT_S).status

    def bring(self, folder: str, members: Mapping[str, Path]) -> None:
        """Leaves files in a new folder there; what is there already stays.  Raises HostError."""
        argv = ("python", "-m", "powercut.fleet.receive", folder)
        script = at(self.host, self._version, *argv)
        done = self._remote.run(script, stdin=packed(tar_of(members)), timeout_s=_FETCH_S)
        if done.status:
            why = last_line(done.printed)
            raise HostError(f"{self.host.name}: {folder} cannot be brought there: {why}")

    def fetch(self, folder: str, left_out: tuple[str, ...]) -> bytes:
        """The files of a recording, as powercut.fleet.send gives them.  Raises HostError."""
        argv = ("python", "-m", "powercut.fleet.send", folder, *left_out)
        done = self._remote.run(at(self.host, self._version, *argv), timeout_s=_FETCH_S)
        if done.status:
            why = last_line(done.printed)
            raise HostError(f"{self.host.name}: {folder} cannot be fetched: {why}")
        return done.output

    def remove(self, folder: str) -> None:
        """Removes a folder there.  Raises HostError."""
        script = f"cd && cd {shlex.quote(self.host.folder)} && rm -rf -- {shlex.quote(folder)}"
        self._remote.run(script, timeout_s=_FETCH_S)

    def fail(self, why: str) -> None:
        """From here on the host is lost; whoever waits for it hears so."""
        with self._changing:
            if self.lost:
                return
            self.lost = why
            waiting = [self._hello, *self._replies.values()]
        for reply in waiting:
            reply.come.set()

    def _wait(self, reply: _Reply) -> None:
        while not reply.come.wait(_WAIT_S):
            if time.monotonic() - self._heard > self._silence_s:
                self.fail(f"nothing was heard of it for {self._silence_s:.0f} s")
        if reply.done is None and not reply.trouble and self.lost:
            raise HostLost(f"{self.host.name}: {self.lost}")

    def _send(self, line: bytes) -> None:
        try:
            with self._sending:
                assert self._command is not None
                self._command.write(line)
        except OSError as error:
            self.fail(f"the link is lost ({error or type(error).__name__})")
            raise HostLost(f"{self.host.name}: {self.lost}") from None

    def _beat(self) -> None:
        while not self._closed.wait(self._silence_s / BEATS) and not self.lost:
            try:
                self._send(line_of("beat"))
            except HostLost:
                return

    def _listen(self, command: RemoteCommand) -> None:
        rest = b""
        while data := command.read():
            self._heard = time.monotonic()
            *lines, rest = (rest + data).split(b"\n")
            try:
                if len(rest) > LINE_MAX:
                    raise ValueError("a line without end")
                for line in lines:
                    self._take(line)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                self.fail(f"what it says makes no sense: {_first_line(error)}")
                command.close()
                return
        if self._closed.is_set():
            return
        words = command.printed.strip().splitlines()
        self.fail(f"its worker ended: {words[-1]}" if words else "the link was lost")

    def _take(self, line: bytes) -> None:
        """Raises ValueError (pydantic's ValidationError is one) for what makes no sense."""
        ((kind, body),) = json.loads(line).items()
        if kind == "beat":
            return
        if kind == "hello":
            self._hello.done = Hello.model_validate_json(json.dumps(body))
            self._hello.come.set()
            return
        message: Any = _KINDS[kind].model_validate_json(json.dumps(body))
        with self._changing:
            reply = self._replies.get(message.id)
        if reply is None or reply.come.is_set():
            raise ValueError(f"an answer to order {message.id}, which is not open")
        match message:
            case PhaseOf():
                reply.notify(message.phase)
            case Trouble():
                reply.trouble = message.why or "it does not say why"
                reply.come.set()
            case _ if isinstance(message, reply.wanted):
                reply.done = message
                reply.come.set()
            case _:
                raise ValueError(f"{kind} was not asked for")

    def close(self) -> None:
        """The worker ends with its input; idempotent."""
        self._closed.set()
        if self._command is not None:
            self._command.close()
        self.fail("the run is over")
        self._remote.close()


_KINDS: Final[dict[str, type[Message]]] = {
    "phase": PhaseOf,
    "done": Done,
    "judged": Judged,
    "trouble": Trouble,
}


def _first_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return str(error).partition("\n")[0][:200]
