# SPDX-License-Identifier: Apache-2.0
"""Schedulers and workers that powercut starts itself, on this host.

The scheduler runs in the sandbox: whatever a worker has it load, it gets no file of this host and
no process.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from powercut.cluster.engine import Address
from powercut.cluster.messages import FOLDER
from powercut.cluster.node import Node, new_pem
from powercut.model.errors import HostError
from powercut.model.json_text import parse_json
from powercut.paths import CACHE, INSTALLED
from powercut.sandbox.apart import start_apart

_START_S: Final = 60.0
_LINE_MAX: Final = 4096
INSTALL: Final = (
    "pip install 'powercut[cluster]'"
    if INSTALLED
    else "./powercut in the checkout installs what --cluster needs"
)
"""What to do where Dask is missing."""
LOCAL: Final = "local"
"""The name of the worker of this host."""


def local_folder() -> Path:
    """Where the worker of this host keeps what it has made."""
    return CACHE / "cluster"


@contextlib.contextmanager
def scheduler() -> Iterator[Address]:
    """A scheduler on loopback that lives as long as the context.  Raises HostError."""
    pem = new_pem()
    process = start_apart("powercut.cluster.node", [], network=True)
    with running(process):
        yield Address.parse(begin(process, Node(pem=pem)), pem)


@contextlib.contextmanager
def local_cluster(threads: int | None = None) -> Iterator[Callable[[], Address]]:
    """A scheduler, and a worker with all processors of this host, in one process: who would take
    over the scheduler has this host already.  They start while others do; what is given waits for
    them, and raises HostError.
    """
    pem, folder = new_pem(), local_folder()
    node = Node(
        pem=pem,
        name=LOCAL,
        threads=threads or len(os.sched_getaffinity(0)),
        environment={FOLDER: str(folder), "DASK_TEMPORARY_DIRECTORY": str(folder)},
    )
    folder.mkdir(parents=True, exist_ok=True)
    with start_node(folder) as process:
        yield lambda: replace(Address.parse(begin(process, node), pem), folder=folder)


@contextlib.contextmanager
def start_node(
    folder: Path, words: Sequence[str] = ("-m", "powercut.cluster.node")
) -> Iterator[subprocess.Popen[bytes]]:
    """A process of this user's, with a worker or both, until the context ends."""
    process = subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=folder,
    )
    with running(process):
        yield process


@contextlib.contextmanager
def running(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends it when the context ends."""
    try:
        yield
    finally:
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def begin(process: subprocess.Popen[bytes], node: Node) -> str:
    """Tells it what it is; the address at which it listens.  Raises HostError."""
    assert process.stdin is not None
    assert process.stdout is not None
    what = "worker" if node.name else "scheduler"
    with contextlib.suppress(OSError):
        process.stdin.write(node.model_dump_json().encode() + b"\n")
        process.stdin.flush()
    deadline, said = time.monotonic() + _START_S, b""
    while b"\n" not in said and len(said) < _LINE_MAX:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
            break
        data = os.read(process.stdout.fileno(), _LINE_MAX)
        if not data:
            break
        said += data
    try:
        return str(parse_json(said)["address"])
    except (ValueError, KeyError, TypeError):
        raise HostError(f"Dask's {what} does not start", hint=INSTALL) from None
