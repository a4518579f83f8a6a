# SPDX-License-Identifier: Apache-2.0
"""Hosts of a fleet that are folders on this host: commands run here, with another home.

What goes wrong with one is planted: it is `dead`, or falls silent.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import subprocess
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from powercut.closing import Closing
from powercut.fleet.receive import receive
from powercut.fleet.send import stream_of
from powercut.fleet.worker import Worker
from powercut.machine.remote import Done, Unreachable
from powercut.model.errors import PowercutError
from powercut.rig.rig import Rig
from powercut.scenario.plan import Plan

Change = Callable[[str, Any], Any]


class HostHere(Closing):
    """A `Remote` whose commands run on this host; `home` is where its user is at home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.dead = False
        self.scripts: list[str] = []

    def connect(self, *, timeout_s: float) -> None:
        if self.dead:
            raise Unreachable(f"ssh {self.home.name}: nobody answers", hint="is it on?")

    def run(self, script: str, *, stdin: Iterable[bytes] = (), timeout_s: float) -> Done:
        self.connect(timeout_s=timeout_s)
        self.scripts.append(script)
        done = subprocess.run(
            ["sh", "-c", script],
            input=b"".join(stdin),
            capture_output=True,
            check=False,
            timeout=timeout_s,
            env={"HOME": str(self.home), "PATH": os.environ["PATH"]},
        )
        return Done(done.returncode, done.stdout, done.stderr.decode(errors="replace"))

    def another(self) -> HostHere:
        return self

    def close(self) -> None:
        """Nothing is held open."""


class WorkerHere:
    """A `RemoteCommand`: powercut's worker in threads of this process, on a fake machine.

    `before` may change what it says, or say nothing (None); it gets a message's kind and body.
    """

    def __init__(self, root: Path, before: Change, rig: Callable[[Plan], Rig]) -> None:
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        self._before = before
        self._rest = b""
        self._gone = False
        self.printed = ""
        self._writing = threading.Lock()
        self._thread = threading.Thread(target=self._serve, args=(root, orders, answers, rig))
        self._thread.daemon = True
        self._thread.start()

    def _serve(self, root: Path, orders: int, answers: int, rig: Callable[[Plan], Rig]) -> None:
        with (
            contextlib.suppress(OSError, ValueError),
            os.fdopen(orders, "rb") as reader,
            os.fdopen(answers, "wb") as writer,
        ):
            try:
                Worker(root, reader, writer, ready=rig, leave=lambda _: None).serve()
            except PowercutError as error:  # as its `main` does
                self.printed = str(error)

    def write(self, data: bytes) -> None:
        with self._writing:
            if self._gone:
                raise OSError("the link is lost")
            os.write(self._orders, data)

    def read(self) -> bytes:
        while True:
            *lines, self._rest = self._rest.split(b"\n")
            said = b"".join(map(self._changed, lines))
            if said:
                return said
            data = os.read(self._answers, 1 << 16)
            if not data:
                return b""
            self._rest += data

    def _changed(self, line: bytes) -> bytes:
        ((kind, body),) = json.loads(line).items()
        if self._gone:
            return b""
        try:
            body = self._before(kind, body)
        except ConnectionError:
            self.close()
            body = None
        return b"" if body is None else json.dumps({kind: body}).encode() + b"\n"

    @property
    def status(self) -> int | None:
        return None

    @property
    def ended_in_order(self) -> bool:
        return False

    def close(self) -> None:
        with self._writing:
            if not self._gone:
                self._gone = True
                os.close(self._orders)


class FleetHere(HostHere):
    """A host of a fleet on a fake machine; `before` says what is wrong with what it says."""

    def __init__(self, home: Path, rig: Callable[[Plan], Rig]) -> None:
        super().__init__(home)
        home.mkdir(parents=True, exist_ok=True)
        self.root = home / "fleet"
        self.root.mkdir(exist_ok=True)
        self.before: Change = lambda _kind, body: body
        self.rig = rig
        self.made: list[str] = []
        self.changed_evidence: Callable[[Path], None] = lambda _: None

    def begin(self, script: str, *, timeout_s: float) -> WorkerHere:
        def before(kind: str, body: Any) -> Any:
            if kind == "done":
                self.made.append(body["folder"])
            return self.before(kind, body)

        return WorkerHere(self.root, before, self.rig)

    def run(self, script: str, *, stdin: Iterable[bytes] = (), timeout_s: float) -> Done:
        """Only asked for recordings, or to take one."""
        self.connect(timeout_s=timeout_s)
        words = shlex.split(script)
        if "[" in words:  # is that folder there?
            there = (self.home / words[words.index("-e") + 1]).exists()
            return Done(0 if there else 1, b"", "")
        if "powercut.fleet.receive" in words:
            folder = self.root / words[words.index("powercut.fleet.receive") + 1]
            receive(io.BytesIO(b"".join(stdin)), folder)
            return Done(0, b"", "")
        at = words.index("powercut.fleet.send")
        self.changed_evidence(self.root / words[at + 1])
        sent = b"".join(stream_of(self.root / words[at + 1], words[at + 2 :]))
        return Done(0, sent, "")


class WorkerProcess:
    """A `RemoteCommand`: powercut's worker, a process of this host; `before` as in `WorkerHere`."""

    def __init__(self, script: str, home: Path, before: Change) -> None:
        self._before = before
        self._errors = home / "worker.txt"
        errors = self._errors.open("wb")
        self._process = subprocess.Popen(
            ["sh", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={"HOME": str(home), "PATH": os.environ["PATH"]},
        )
        errors.close()
        self._writing = threading.Lock()

    def write(self, data: bytes) -> None:
        with self._writing:
            if self._process.stdin.closed:
                raise OSError("the link is lost")
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def read(self) -> bytes:
        if self._process.stdout.closed:
            return b""
        while line := self._process.stdout.readline():
            ((kind, body),) = json.loads(line).items()
            body = self._before(kind, body)
            if body is not None:
                return json.dumps({kind: body}).encode() + b"\n"
        self._process.stdout.close()
        return b""

    @property
    def printed(self) -> str:
        return self._errors.read_text(errors="replace")

    @property
    def status(self) -> int | None:
        return self._process.poll()

    @property
    def ended_in_order(self) -> bool:
        return False

    def close(self) -> None:
        with self._writing, contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


class ProcessHost(HostHere):
    """A host of a fleet whose commands are processes of this host, its worker among them."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        home.mkdir(parents=True, exist_ok=True)
        self.root = home / ".cache" / "powercut-fleet"
        self.before: Change = lambda _kind, body: body
        self.made: list[str] = []

    def begin(self, script: str, *, timeout_s: float) -> WorkerProcess:
        def before(kind: str, body: Any) -> Any:
            if kind == "done":
                self.made.append(body["folder"])
            return self.before(kind, body)

        return WorkerProcess(script, self.home, before)


def two_cells(name: str, trials: int) -> str:
    """A scenario for the fake machine: a disk that is honest, and one that ignores flushes."""
    return f"""powercut: 1
name: {name}
machine: {{backend: fake}}
filesystem: {{type: raw}}
disk: {{size: 4MiB, flush_latency: 50ms, fua_latency: 50ms}}
workload: {{layout: raw, record: 512, capacity: 2MiB}}
explore: {{budget: "off"}}
cut: {{trigger: {{acks: 10}}}}
trials: {trials}
cells:
  - {{name: honest}}
  - {{name: lying, disk.flush: ignored, disk.fua: ignored, expect: lossy}}
"""
