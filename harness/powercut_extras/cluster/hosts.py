# SPDX-License-Identifier: Apache-2.0
"""`powercut doctor hosts`: this powercut, and what it imports, on hosts that ssh reaches.

A host gets an environment in FOLDER, below the home of the user: pip installs the wheel of this
powercut there, by the index that pip is configured for on the host.  Dask's workers run in it.
"""

from __future__ import annotations

import importlib
import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from powercut.model.errors import HostError, PowercutError
from powercut.model.printable import parse_json
from powercut.paths import expanded

FOLDER: Final = ".cache/powercut-cluster"
_AT_ONCE: Final = 16
_CONNECT_S: Final = 20.0
_INSTALL_S: Final = 1800.0
_KEEPALIVE_S: Final = 5  # so that a link that is dead is noticed

_PREPARE: Final = f"""\
set -e; cd; mkdir -p {FOLDER}; cd {FOLDER}
exec 9>lock; flock 9
cat >{{wheel}}
[ -x venv/bin/pip ] || {{python}} -m venv venv
venv/bin/pip install -q --disable-pip-version-check './{{wheel}}[cluster]'
venv/bin/pip install -q --disable-pip-version-check --no-deps --force-reinstall ./{{wheel}}
"""
_DOCTOR: Final = f"cd; exec {FOLDER}/venv/bin/powercut doctor --json -"


@dataclass(frozen=True)
class HostReport:
    """What is wrong with a host, in sentences; nothing if it can take part."""

    name: str
    problems: tuple[str, ...] = ()


def prepare(hosts: Sequence[str], wheel: Path, python: str = "python3") -> tuple[HostReport, ...]:
    """Installs powercut on hosts, several at a time; each as `[USER@]NAME[:PORT]`."""
    script = _PREPARE.format(wheel=shlex.quote(wheel.name), python=shlex.quote(python))

    def make(name: str) -> HostReport:
        status, _, printed = _run(name, script, wheel.read_bytes())
        if status:
            raise HostError(f"powercut could not be installed: {_last_line(printed)}")
        return _look(name)

    return _on_each(hosts, make)


def check(hosts: Sequence[str]) -> tuple[HostReport, ...]:
    """Asks the doctor of each host what it misses there."""
    return _on_each(hosts, _look)


def _look(name: str) -> HostReport:
    _, output, printed = _run(name, _DOCTOR)
    try:
        probes = parse_json(output)["probes"]
        lacks = [probe for probe in probes if probe["needed"] and not probe["ok"]]
        told = (f"{one['name']}: {one['limit']} ({one['remedy']})" for one in lacks)
        return HostReport(name, tuple(told))
    except (ValueError, KeyError, TypeError):
        raise HostError(
            f"powercut doctor does not run there: {_last_line(printed)}",
            hint="powercut doctor hosts prepare",
        ) from None


def _on_each(hosts: Sequence[str], do: Callable[[str], HostReport]) -> tuple[HostReport, ...]:
    def one(name: str) -> HostReport:
        try:
            return do(name)
        except PowercutError as error:
            return HostReport(name, tuple(filter(None, (str(error), error.hint))))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return tuple(pool.map(one, hosts))


def _run(name: str, script: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
    """Exit status, standard output and standard error of a script of sh's there."""
    try:
        fabric, paramiko = map(importlib.import_module, ("fabric", "paramiko"))
    except ImportError as error:
        raise HostError(f"ssh cannot be used: {error}", hint="pip install fabric") from None
    connection = fabric.Connection(name, connect_timeout=_CONNECT_S)
    try:
        with connection:
            _know_hosts(connection.client, paramiko.RejectPolicy())
            connection.open()
            connection.transport.set_keepalive(_KEEPALIVE_S)
            sent, said, told = connection.client.exec_command(
                f"sh -c {shlex.quote(script)}", timeout=_INSTALL_S
            )
            sent.write(stdin)
            sent.channel.shutdown_write()
            output, printed = said.read(), told.read()
            return said.channel.recv_exit_status(), output, printed.decode(errors="replace")
    except (OSError, EOFError, paramiko.SSHException) as error:
        words = str(error).removeprefix("[Errno None] ") or type(error).__name__
        hint = f"`ssh {name} true` has to work by itself"
        raise HostError(f"ssh {name}: {words}", hint=hint) from None


def _know_hosts(client: Any, policy: Any) -> None:
    """Only hosts that are known are accepted; Fabric accepts any."""
    client.set_missing_host_key_policy(policy)
    for path in ("/etc/ssh/ssh_known_hosts", "~/.ssh/known_hosts"):
        with suppress(FileNotFoundError):
            client.load_system_host_keys(str(expanded(path)))


def _last_line(printed: str) -> str:
    lines = printed.strip().splitlines()
    return lines[-1] if lines else "it printed nothing"
