# SPDX-License-Identifier: Apache-2.0
"""A scheduler or a worker of Dask's, or both, that ends when the one who started it does.

    python -m powercut.cluster.node

The first line of standard input says what it is (`Node`); the first line of standard output is the
address at which it listens.  It ends with its input, and so does every trial on it.

Whoever has no certificate is not let in: a scheduler runs whatever a client gives it, so one that
any user of a host may connect to gives them the account that it runs under.  Those that powercut
starts have a certificate that is made for them, and is never a file.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from importlib import import_module
from typing import Any

from pydantic import BaseModel, ConfigDict


class Pem(BaseModel):
    """A certificate, its key, and the authority that others have to have theirs from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ca: str
    certificate: str
    key: str

    def security(self) -> Any:
        """The same for Dask."""
        from distributed import Security  # noqa: PLC0415  takes most of a second

        options = {"tls_ca_file": self.ca}
        for role in ("client", "scheduler", "worker"):
            options |= {f"tls_{role}_cert": self.certificate, f"tls_{role}_key": self.key}
        make: Any = Security
        return make(require_encryption=True, **options)


def new_pem() -> Pem:
    """One that nobody else has."""
    from distributed import Security  # noqa: PLC0415

    make: Any = Security.temporary
    made = make()
    return Pem(ca=made.tls_ca_file, certificate=made.tls_client_cert, key=made.tls_client_key)


class Node(BaseModel):
    """What is to be started."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    pem: Pem
    scheduler: str = ""
    """The address of the scheduler; empty: this is the one."""

    name: str = ""
    """Of the worker; empty: this is none."""

    threads: int = 1
    port: int = 0
    """On loopback; 0: any that is free."""

    environment: dict[str, str] = {}


async def _serve(node: Node) -> None:
    from dask import config  # noqa: PLC0415
    from distributed import Scheduler, Worker  # noqa: PLC0415

    config.set({"distributed.worker.profile.enabled": False})
    make_scheduler: Any = Scheduler
    make_worker: Any = Worker
    there = {"protocol": "tls://", "host": "127.0.0.1", "port": node.port}
    common: dict[str, Any] = {"security": node.pem.security(), "dashboard": False}
    server: Any = None
    if not node.scheduler:
        server = await make_scheduler(**there, **common)
    if node.name:
        where = node.scheduler or server.address
        settings = {"name": node.name, "nthreads": node.threads, "memory_limit": 0}
        worker = await make_worker(where, **settings, **there, **common)
        # What a trial needs is read while the first one is on its way.
        threading.Thread(target=import_module, args=("powercut.cluster.host",)).start()
        server = server or worker
    sys.stdout.write(json.dumps({"address": server.address}) + "\n")
    sys.stdout.flush()
    await server.finished()


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """For whoever starts it."""
    node = Node.model_validate_json(sys.stdin.readline())
    os.environ.update(node.environment)
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        asyncio.run(_serve(node))
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
