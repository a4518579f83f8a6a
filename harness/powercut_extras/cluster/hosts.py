# SPDX-License-Identifier: Apache-2.0
"""`powercut doctor hosts`: this powercut, and what it imports, on hosts that ssh reaches.

A host gets an environment in FOLDER, below the home of the user: pip installs the wheel of this
powercut there, by the index that pip is configured for on the host.  Dask's workers run in it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.machine.remote import Done, Remote, last_line
from powercut.machine.ssh import FabricRemote
from powercut.model.errors import HostError, PowercutError
from powercut.model.json_text import parse_json

FOLDER: Final = ".cache/powercut-cluster"
_AT_ONCE: Final = 16
_CONNECT_S: Final = 20.0
_INSTALL_S: Final = 1800.0

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


RemoteOf = Callable[[str], Remote]


def prepare(
    hosts: Sequence[str], wheel: Path, python: str = "python3", remote_of: RemoteOf = FabricRemote
) -> tuple[HostReport, ...]:
    """Installs powercut on hosts, several at a time; each as `[USER@]NAME[:PORT]`."""

    def make(remote: Remote, name: str) -> HostReport:
        script = _PREPARE.format(wheel=shlex.quote(wheel.name), python=shlex.quote(python))
        done = remote.run(script, stdin=[wheel.read_bytes()], timeout_s=_INSTALL_S)
        _require(done, "powercut could not be installed")
        return _look(remote, name)

    return _on_each(hosts, make, remote_of)


def check(hosts: Sequence[str], remote_of: RemoteOf = FabricRemote) -> tuple[HostReport, ...]:
    """Asks the doctor of each host what it misses there."""
    return _on_each(hosts, _look, remote_of)


def _look(remote: Remote, name: str) -> HostReport:
    done = remote.run(_DOCTOR, timeout_s=_INSTALL_S)
    try:
        probes = parse_json(done.output)["probes"]
        lacks = [probe for probe in probes if probe["needed"] and not probe["ok"]]
        told = (f"{one['name']}: {one['limit']} ({one['remedy']})" for one in lacks)
        return HostReport(name, tuple(told))
    except (ValueError, KeyError, TypeError):
        said = last_line(done.printed)
        raise HostError(
            f"powercut doctor does not run there: {said}", hint="powercut doctor hosts prepare"
        ) from None


def _on_each(
    hosts: Sequence[str], do: Callable[[Remote, str], HostReport], remote_of: RemoteOf
) -> tuple[HostReport, ...]:
    def one(name: str) -> HostReport:
        try:
            with closing(remote_of(name)) as remote:
                remote.connect(timeout_s=_CONNECT_S)
                return do(remote, name)
        except PowercutError as error:
            return HostReport(name, tuple(filter(None, (str(error), error.hint))))

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return tuple(pool.map(one, hosts))


def _require(done: Done, why: str) -> None:
    if done.status:
        raise HostError(f"{why}: {last_line(done.printed)}")
