# SPDX-License-Identifier: Apache-2.0
"""A cluster on the hosts of a hosts file: a scheduler here, a worker on each, ssh between them.

Nothing listens but on loopback: the ssh session that starts a worker also carries what the
scheduler and the worker say to each other, both ways.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from powercut.cluster.engine import Address
from powercut.cluster.facts import CONNECT_S, at, remote_of
from powercut.cluster.hosts_file import HostSettings, read_hosts
from powercut.cluster.local import scheduler
from powercut.cluster.node import Node
from powercut.cluster.provision import prepare
from powercut.cluster.wheels import make_wheels
from powercut.machine.remote import Unreachable
from powercut.machine.ssh import FabricRemote
from powercut.model.errors import HostError, PowercutError, UsageError
from powercut.model.events import Notice, RunEvent
from powercut.model.json_text import parse_json

_START_S: Final = 120.0
_DOWN_S: Final = 60.0
_AT_ONCE: Final = 16
_PORTS: Final = range(20_000, 32_000)
"""Below net.ipv4.ip_local_port_range: no connection gets one of them."""

_TRIES: Final = 5


@contextlib.contextmanager
def hosts_cluster(path: Path, on_event: Callable[[RunEvent], None]) -> Iterator[Address]:
    """The hosts of the hosts file, made ready and at work as long as the context lives.

    Raises UsageError for a mistake in the file, HostError if no host can take part.
    """
    settings = read_hosts(path)
    house = make_wheels()
    reports = prepare(settings, house)
    bad = {report.name: report for report in reports if report.problem}
    for report in bad.values():
        on_event(Notice(f"{report.name} is not ready: {report.problem}."))
    ready = [host for host in settings if host.name not in bad]
    with contextlib.ExitStack() as stack:
        if ready:
            address = stack.enter_context(scheduler())
            stack.enter_context(_workers(ready, house.digest, address, on_event))
        else:
            raise HostError(
                "no host can be made ready: " + "; ".join(r.problem for r in bad.values()),
                hint=next((report.hint for report in bad.values() if report.hint), ""),
            )
        yield address


@contextlib.contextmanager
def _workers(
    hosts: Sequence[HostSettings],
    version: str,
    address: Address,
    on_event: Callable[[RunEvent], None],
) -> Iterator[None]:
    held = contextlib.ExitStack()
    problems: list[str] = []

    def begin(host: HostSettings) -> None:
        with contextlib.ExitStack() as stack:
            try:
                _start(stack, host, version, address)
            except PowercutError as error:
                problems.append(f"{host.name}: {error}")
                on_event(Notice(f"{host.name} takes no part: {error}."))
                return
            held.push(stack.pop_all())

    with held:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(begin, hosts))
        if len(problems) == len(hosts):
            raise HostError("no host can take part: " + "; ".join(problems))
        yield


def _start(stack: contextlib.ExitStack, host: HostSettings, version: str, address: Address) -> None:
    """A worker on a host.  Raises HostError."""
    remote = remote_of(host)
    stack.callback(remote.close)
    remote.connect(timeout_s=CONNECT_S)
    if not isinstance(remote, FabricRemote):
        raise HostError(f"{host.name}: no tunnels lead there")
    port, back = _tunnels(stack, remote, address.port)
    assert address.pem is not None
    node = Node(
        pem=address.pem,
        scheduler=f"tls://127.0.0.1:{back}",
        name=host.name,
        threads=host.jobs,
        port=port,
        environment={"POWERCUT_HOST_ROOM": str(host.room)},
    )
    command = remote.begin(
        at(host, version, "python", "-m", "powercut.cluster.node"), timeout_s=_START_S
    )
    stack.callback(command.close)
    command.write(node.model_dump_json().encode() + b"\n")
    said = command.read()
    if not said.startswith(b'{"address"'):
        lines = command.printed.strip().splitlines()
        raise HostError(f"its worker does not start: {lines[-1] if lines else 'it says nothing'}")


def _tunnels(stack: contextlib.ExitStack, remote: FabricRemote, to: int) -> tuple[int, int]:
    """The port of the worker, and the one that leads back to port `to`.  Raises HostError.

    Who binds a port first has it, and which are free on the host is not known here.
    """
    why = ""
    for _ in range(_TRIES):
        port, back = random.SystemRandom().sample(_PORTS, 2)
        try:
            socket.create_server(("127.0.0.1", port)).close()  # Fabric does not say if it is taken
            stack.enter_context(remote.tunnels(here=port, there=port, back=back, to=to))
        except (OSError, Unreachable) as error:
            why = str(error)
        else:
            return port, back
    raise HostError(f"no tunnel in {_TRIES} tries: {why}")


def cluster_file(hosts_file: Path) -> Path:
    """Where `hosts up` says how its cluster is reached."""
    return hosts_file.with_name(f"{hosts_file.name}.cluster")


def stay_up(hosts_file: Path, on_event: Callable[[RunEvent], None]) -> None:
    """Keeps the hosts up until `take_down`, or an interrupt.  Raises as `hosts_cluster`."""
    path = cluster_file(hosts_file)
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(handle, "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"the hosts of {hosts_file} are up already") from None
        os.fchmod(file.fileno(), 0o600)
        signal.signal(signal.SIGTERM, _interrupt)
        try:
            with hosts_cluster(hosts_file, on_event) as address:
                assert address.pem is not None
                told = {
                    "address": f"tls://{address.host}:{address.port}",
                    "pem": address.pem.model_dump(),
                    "pid": os.getpid(),
                }
                file.truncate(0)
                file.write(json.dumps(told))
                file.flush()
                on_event(Notice(f"The hosts are up: --cluster {path}"))
                with contextlib.suppress(KeyboardInterrupt):
                    signal.pause()
        finally:
            path.unlink(missing_ok=True)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def take_down(hosts_file: Path) -> None:
    """Ends the process that keeps the hosts up.  Raises UsageError, HostError."""
    path = cluster_file(hosts_file)
    try:
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                pid = int(parse_json(file.read())["pid"])
            else:
                path.unlink()
                return
    except (OSError, ValueError, KeyError):
        raise UsageError(
            f"the hosts of {hosts_file} are not up", hint="powercut doctor hosts up"
        ) from None
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _DOWN_S
    while path.exists():
        if time.monotonic() > deadline:
            raise HostError(f"process {pid}, which keeps the hosts up, does not end")
        time.sleep(0.1)
