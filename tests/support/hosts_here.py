# SPDX-License-Identifier: Apache-2.0
"""Hosts of a cluster that are folders on this host: commands run here, with another home.

What goes wrong with one is planted: it is `dead`, or falls silent.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from powercut.closing import Closing
from powercut.cluster.engine import Answer, WorkerSeen
from powercut.cluster.host import HostHere as Worker
from powercut.machine.remote import Done, Unreachable
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


class ClusterHere(HostHere):
    """A host of a cluster, on a fake machine; `before` says what is wrong with what it says.

    `before` gets a message's kind (hello, done, trouble, judged, list, ...) and body, and may
    change it; say nothing at all (None); or die (ConnectionError).
    """

    def __init__(self, home: Path, rig: Callable[[Plan], Rig], threads: int = 1) -> None:
        super().__init__(home)
        self.root = home / "cluster"
        self.root.mkdir(parents=True, exist_ok=True)
        self.threads = threads
        self.seen_s = 0.0
        self.before: Change = lambda _kind, body: body
        self.rig = rig
        self.made: list[str] = []
        self.changed_evidence: Callable[[Path], None] = lambda _: None
        self.works = self.new()

    def new(self) -> Worker:
        """powercut's part of a worker, as it is when its process begins."""
        self.dead = False
        self.works = Worker(self.root, self.rig)
        self.works.name, self.works.threads = self.home.name, self.threads
        return self.works

    def answer(self, call: str, text: str) -> str | None:
        if call == "list":
            self.changed_evidence(self.root / json.loads(text)["paths"][0])
        body = json.loads(self.works.answer(call, text))
        if body.get("kind") == "trouble":
            return self._told("trouble", body)
        if call == "trials":
            return self._told_of_each(body)
        kind = {"states": "judged"}.get(call, call)
        return self._told(kind, body)

    def _told(self, kind: str, body: Any) -> str | None:
        body = self.before(kind, body)
        return None if body is None else json.dumps(body, separators=(",", ":"))

    def _told_of_each(self, body: Any) -> str | None:
        changed = []
        for one in body["answers"]:
            if one["kind"] == "done":
                self.made.append(one["folder"])
            changed.append(self.before(one["kind"], one))
        return None if None in changed else json.dumps({"answers": changed})


class EngineHere(Closing):
    """An engine whose workers are threads of this process: like Dask, and without it.

    What only workers were to do that are dead or silent is never done, as there.  What a test
    raises in a worker fails the call, and is raised at the end.
    """

    def __init__(self, hosts: Mapping[str, ClusterHere]) -> None:
        self.folder = None
        self._hosts = hosts
        self._queue: list[tuple[str, str, frozenset[str], Future[Answer]]] = []
        self._changed = threading.Condition()
        self._closed = False
        self._news: Future[None] = Future()
        self._errors: list[BaseException] = []
        self._addresses = {name: name for name in hosts}
        for name in hosts:
            self._begin(name)

    def _begin(self, name: str) -> None:
        host = self._hosts[name]
        host.new()
        for _ in range(host.threads):
            argv = (self._addresses[name], host)
            threading.Thread(target=self._work, args=argv, daemon=True).start()
        self._tell()

    def _tell(self) -> None:
        with self._changed:
            news, self._news = self._news, Future()
        news.set_result(None)

    @property
    def news(self) -> Future[None]:
        with self._changed:
            return self._news

    def restart(self, name: str) -> None:
        """It dies, and another process takes its place a moment later."""
        host = self._hosts[name]
        host.dead = True
        self._addresses[name] += "+"
        threading.Timer(0.2, self._begin, (name,)).start()

    @property
    def workers(self) -> tuple[WorkerSeen, ...]:
        return tuple(
            WorkerSeen(
                address=self._addresses[name], name=name, threads=host.threads, seen_s=host.seen_s
            )
            for name, host in self._hosts.items()
            if not host.dead
        )

    def call(
        self, call: str, text: str, workers: Sequence[str] = (), *, priority: int = 0
    ) -> Future[Answer]:
        future: Future[Answer] = Future()
        with self._changed:
            self._queue.append((call, text, frozenset(workers or self._addresses.values()), future))
            if priority:
                self._queue.insert(0, self._queue.pop())
            self._changed.notify_all()
        return future

    def _work(self, name: str, host: ClusterHere) -> None:
        while not host.dead and name == self._addresses[host.home.name]:
            with self._changed:
                mine = next((item for item in self._queue if name in item[2]), None)
                if self._closed:
                    return
                if mine is None:
                    self._changed.wait(1.0)
                    continue
                self._queue.remove(mine)
            call, text, _, future = mine
            try:
                said = host.answer(call, text)
            except ConnectionError:
                host.dead = self._addresses[host.home.name] == name
                with self._changed:
                    self._queue.append(mine)
                    self._changed.notify_all()
                self._tell()
                return
            except Exception as error:  # of the test: the run is not to wait for an answer
                self._errors.append(error)
                if future.set_running_or_notify_cancel():
                    future.set_exception(error)
                continue
            if said is None:  # it hangs, and others get the task
                with self._changed:
                    self._queue.append(mine)
                    self._changed.notify_all()
                return
            if future.set_running_or_notify_cancel():
                future.set_result(Answer(said, name))

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for error in self._errors:
            raise error


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
