# SPDX-License-Identifier: Apache-2.0
"""The client of Dask, in a process of its own that unpickles nothing and sees nothing.

    python -m powercut.cluster.dispatcher DESCRIPTOR

What a worker answers comes through Dask as a pickle, so whoever loads it runs whatever code the
worker has put into it.  Two walls stand between that and the controller:

1. Here nothing is unpickled: results are text in msgpack, and every other way in which Dask would
   rebuild an object gives `Refused` instead.  So the dispatcher stays what it is, and one host
   cannot speak for another.
2. It runs in the sandbox (powercut.cluster.engine): no file but these modules, no
   process of others, and no network but what it sends through the socket DESCRIPTOR: ends of
   sockets, each of which the controller joins to the scheduler.

It reads orders from standard input, after a line with protocol and certificates, and writes
answers to standard output, JSON, one a line:

    {"id": 1, "call": NAME, "text": TEXT, "workers": [ADDRESS]}    {"cancel": 1}
    {"id": 1, "worker": ADDRESS, "text": TEXT}    {"id": 1, "trouble": WHY}
    {"workers": [{"address", "name", "threads", "seen_s"}]}    {"gone": WHY}

Each answer names the worker that holds it by the scheduler's word, not by the worker's.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import socket
import sys
import time
from typing import Any, Final

import cloudpickle  # type: ignore[import-untyped]
from distributed import Client
from distributed import client as dask_client
from distributed import core as dask_core
from distributed.protocol import pickle as dask_pickle
from distributed.protocol.serialize import families

from powercut.cluster.node import Pem
from powercut.cluster.task import perform

_LINE_MAX: Final = 64 << 20
_TEXT_MAX: Final = 8 << 20
_LOOK_S: Final = 1.0
_CONNECT_S: Final = 30
_AT_ONCE: Final = 64
"""Results that are asked for at the same time."""


class Refused(Exception):
    """What a worker sent, and is not rebuilt here."""


def _refuse(*_: Any, **__: Any) -> Any:
    return Refused()


def _no_exception(*_: Any, **__: Any) -> tuple[Any, Any, None]:
    return Refused, Refused(), None


def unpickle_nothing() -> None:
    """From here on Dask rebuilds no object here: only text, numbers, lists and tables."""
    for module in (pickle, cloudpickle, dask_pickle, dask_client):
        for name in ("load", "loads", "Unpickler"):
            if hasattr(module, name):
                setattr(module, name, _refuse)
    for module in (dask_client, dask_core):
        module.clean_exception = _no_exception  # type: ignore[attr-defined]
    for name, (dumps, _, context) in list(families.items()):
        if name != "msgpack":
            families[name] = (dumps, _refuse, context)


class Dispatcher:
    """Between two pipes and one scheduler."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._futures: dict[int, Any] = {}
        self._told: list[Any] = []
        self._asking = asyncio.Semaphore(_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def say(self, **message: Any) -> None:
        """Raises BrokenPipeError once nobody hears it."""
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    async def serve(self, orders: asyncio.StreamReader) -> None:
        """Until the orders end."""
        watching = asyncio.create_task(self._watch())
        while line := await orders.readline():
            order = json.loads(line)
            if "cancel" in order:
                future = self._futures.pop(order["cancel"], None)
                if future is not None:
                    await self._client.cancel([future], force=True)
                continue
            self._futures[order["id"]] = self._client.submit(
                perform,
                order["call"],
                order["text"],
                key=f"powercut-{order['call']}-{os.getpid()}-{time.time_ns()}-{order['id']}",
                workers=order["workers"] or None,
                priority=order.get("priority", 0),
                pure=False,
            )
            task = asyncio.create_task(self._follow(order["id"], self._futures[order["id"]]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        watching.cancel()

    async def _follow(self, number: int, future: Any) -> None:
        await future._state.wait()
        async with self._asking:
            try:
                said = await self._answer(future)
            except Exception as error:  # whatever it is, it is told of this order
                said = {"trouble": f"{type(error).__name__}: {error}"[:2000]}
        if self._futures.pop(number, None) is not None:
            self.say(id=number, **said)
        future.release()

    async def _answer(self, future: Any) -> dict[str, Any]:
        if future.status != "finished":
            return {"trouble": f"the engine gave it up ({future.status})"}
        held = await self._client.scheduler.who_has(keys=[future.key])
        holders = held.get(future.key, ())
        if len(holders) != 1:
            return {"trouble": f"{len(holders)} workers say that they did it"}
        got = await self._client.scheduler.gather(keys=[future.key], serializers=["msgpack"])
        text = got["data"].get(future.key) if got["status"] == "OK" else None
        if not isinstance(text, str):
            return {"trouble": "what its worker returns is no text", "worker": holders[0]}
        if len(text) > _TEXT_MAX:
            return {"trouble": f"its worker returns {len(text)} characters", "worker": holders[0]}
        return {"text": text, "worker": holders[0]}

    async def _watch(self) -> None:
        while True:
            try:
                told = await self._client.scheduler.identity(n_workers=-1)
                self._tell(told["workers"])
            except Exception as error:
                self.say(gone=f"the scheduler cannot be reached: {error}"[:500])
                os._exit(1)
            await asyncio.sleep(_LOOK_S)

    def _tell(self, workers: dict[str, Any]) -> None:
        now = time.time()
        told = [
            {
                "address": str(address),
                "name": str(one.get("name") or address),
                "threads": int(one["nthreads"]),
                "seen_s": max(0.0, now - float(one.get("last_seen") or now)),
            }
            for address, one in workers.items()
        ]
        self.say(workers=told)


async def _relay(line: socket.socket) -> int:
    """A port of this network of its own that leads to the scheduler."""

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 20):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(line, [b"+"], [theirs.fileno()])
        there, here = await asyncio.open_unix_connection(sock=ours)
        await asyncio.gather(pump(reader, here), pump(there, writer))

    server = await asyncio.start_server(join, "127.0.0.1", 0)
    return int(server.sockets[0].getsockname()[1])


async def _main(line: socket.socket) -> None:
    reader = asyncio.StreamReader(limit=_LINE_MAX)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    told = json.loads(await reader.readline())
    protocol, pem = told["protocol"], told["pem"]
    security = None if pem is None else Pem.model_validate(pem).security()
    unpickle_nothing()
    connect: Any = Client
    client = await connect(
        f"{protocol}://127.0.0.1:{await _relay(line)}",
        asynchronous=True,
        direct_to_workers=False,
        set_as_default=False,
        security=security,
        timeout=_CONNECT_S,
    )
    await Dispatcher(client).serve(reader)


def main() -> None:
    """For the controller."""
    (descriptor,) = sys.argv[1:]
    try:
        asyncio.run(_main(socket.socket(fileno=int(descriptor))))
    except Exception as error:
        sys.stdout.write(json.dumps({"gone": f"{type(error).__name__}: {error}"[:500]}) + "\n")
        sys.stdout.flush()
    os._exit(0)  # nothing that Dask would tidy up is anyone's


if __name__ == "__main__":
    main()
