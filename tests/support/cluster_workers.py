# SPDX-License-Identifier: Apache-2.0
"""Workers of a real Dask scheduler, each a process of this host: `python cluster_workers.py KIND`.

`fake` makes trials on the fake machine; `hostile` answers with objects that do harm where they are
unpickled; `mad` kills its process when a trial is asked for; `stuck` never answers; `patient` makes
no trial before there is a file GO in its folder.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from powercut.cluster import node, task
from powercut.cluster.engine import Address
from powercut.cluster.local import begin, start_node
from powercut.cluster.messages import FOLDER
from powercut.cluster.node import Node

GO = "go"
PATIENCE_S = 120


def harm(worker: int, marker: str, controller: int) -> None:
    """What an attacker has run wherever its object arrives, but for its own process."""
    if os.getpid() != worker:
        with contextlib.suppress(OSError):
            Path(marker).write_text("harm\n")
        with contextlib.suppress(OSError):
            os.kill(controller, signal.SIGTERM)


CODE = "__import__('sys').path.append({support!r}) or __import__('cluster_workers').harm({argv})"


class Harmful(Exception):
    """Runs `harm` where it is unpickled, without any class of this module being there."""

    def __init__(self, marker: str, controller: str) -> None:
        super().__init__("harmful")
        argv = f"{os.getpid()}, {marker!r}, {controller}"
        self.code = CODE.format(support=str(Path(__file__).parent), argv=argv)

    def __reduce__(self):
        return eval, (self.code,)


def hostile(call: str, text: str):
    marker, _, controller = text.partition("\n")
    if call == "result":
        return Harmful(marker, controller)
    if call == "list":
        return ["text", Harmful(marker, controller)]
    if call == "exception":
        raise Harmful(marker, controller)
    if call == "cause":
        raise ValueError("outer") from Harmful(marker, controller)
    if call == "bytes":
        return b"no text"
    if call == "large":
        return "x" * (80 << 20)
    return text


def mad(call: str, text: str):
    if call == "trials":
        os._exit(9)
    return honest(call, text)


def stuck(call: str, text: str):
    if call == "trials":
        time.sleep(1e6)
    return honest(call, text)


def patient(call: str, text: str):
    deadline = time.monotonic() + PATIENCE_S
    while call == "trials" and not (Path(os.environ[FOLDER]) / GO).exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return honest(call, text)


honest = task.perform


def on_fake_machine() -> None:
    from fake_machine import FAKE, FakeBackend

    from powercut.cluster.host import HERE
    from powercut.paths import CACHE
    from powercut.rig.rig import Rig
    from powercut.scenario.machines import MACHINES

    MACHINES["fake"] = FAKE
    HERE._ready = lambda _: Rig(CACHE, FakeBackend())
    HERE.root = Path(os.environ[FOLDER])


@contextlib.contextmanager
def worker(
    address: Address, name: str, kind: str, folder: Path, threads: int = 1, **environment: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that can be killed; `real` makes trials on what this host has."""
    folder.mkdir(parents=True, exist_ok=True)
    node = Node(
        pem=address.pem,
        scheduler=f"tls://{address.host}:{address.port}",
        name=name,
        threads=threads,
        environment={FOLDER: str(folder), "DASK_TEMPORARY_DIRECTORY": str(folder), **environment},
    )
    with start_node(folder, [__file__, kind]) as process:
        begin(process, node)
        yield process


def main() -> None:
    kind = sys.argv[1]
    if kind == "hostile":
        task.perform = hostile
    elif kind != "real":
        task.perform = {"mad": mad, "stuck": stuck, "patient": patient}.get(kind, honest)
        start = node._serve

        async def serve(what):
            on_fake_machine()
            await start(what)

        node._serve = serve
    node.main()


if __name__ == "__main__":
    main()
