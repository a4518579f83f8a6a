# SPDX-License-Identifier: Apache-2.0
"""What a host says of itself, before anything of powercut is there, and after."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final

from powercut.cluster.hosts_file import HostSettings, target_of
from powercut.machine.remote import Remote, last_line
from powercut.machine.ssh import FabricRemote
from powercut.model.errors import HostError, PowercutError
from powercut.model.json_text import parse_json

CONNECT_S: Final = 20.0
_FACTS_S: Final = 60.0
_DOCTOR_S: Final = 600.0
_AT_ONCE: Final = 32
CURRENT: Final = "current"
"""File in a host's folder: the version that was made ready last."""

_FACTS: Final = """\
cd || exit 1
f={folder}; d=$f; while [ ! -d "$d" ]; do d=$(dirname "$d"); done
say() {{ printf '%s=%s\\n' "$1" "$(printf %s "$2" | head -n 1)"; }}
say machine "$(uname -m)"
say kernel "$(uname -sr)"
say processor "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo)"
say processors "$(nproc)"
say system "$(. /etc/os-release && echo "$PRETTY_NAME")"
say python "$({python} -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null)"
say free_kib "$(df -P -k "$d" | awk 'NR == 2 {{ print $4 }}')"
say writable "$([ -w "$d" ] && echo yes)"
say version "$(cat "$f/{current}" 2>/dev/null)"
"""


@dataclass(frozen=True)
class HostFacts:
    """One host, as it describes itself: claims, not measurements of ours."""

    machine: str
    kernel: str
    processor: str
    processors: int
    system: str
    python: str
    """Its version; empty if there is none."""

    free: int
    """Bytes, of the file system that the folder lies on or would lie on."""

    writable: bool
    version: str
    """Digest of the powercut that was made ready there last; empty if none was."""


@dataclass(frozen=True)
class HostReport:
    """What came out of asking a host: `problem` says why it cannot take part; empty if it can."""

    name: str
    facts: HostFacts | None = None
    problem: str = ""
    hint: str = ""
    lacks: tuple[str, ...] = ()
    """What its doctor misses, each with the remedy."""


RemoteOf = Callable[[HostSettings], Remote]


def remote_of(host: HostSettings) -> Remote:
    """The way there by ssh; not connected yet."""
    return FabricRemote(target_of(host))


def read_facts(remote: Remote, host: HostSettings) -> HostFacts:
    """What the host says of itself.  Raises HostError."""
    script = _FACTS.format(
        folder=shlex.quote(host.folder), python=shlex.quote(host.python), current=CURRENT
    )
    done = remote.run(script, timeout_s=_FACTS_S)
    said = dict(line.split("=", 1) for line in done.text.splitlines() if "=" in line)
    try:
        return HostFacts(
            machine=said["machine"],
            kernel=said["kernel"],
            processor=said["processor"],
            processors=int(said["processors"]),
            system=said["system"],
            python=said["python"],
            free=int(said["free_kib"]) << 10,
            writable=said["writable"] == "yes",
            version=said["version"],
        )
    except (KeyError, ValueError):
        raise HostError(
            f"{host.name}: does not answer as Linux with sh and awk does: "
            f"{done.printed.strip() or done.text[:80]!r}",
            hint="only Linux hosts can take part",
        ) from None


def at(host: HostSettings, version: str, *argv: str) -> str:
    """A script that runs a program of powercut's environment there."""
    folder = shlex.quote(host.folder)
    return (
        f"cd && cd {folder} && here=$(pwd) && "
        'export POWERCUT_BUILD="$here/build" && unset POWERCUT_CACHE && '
        'export POWERCUT_HOST_FOLDER="$here" && '
        f'exec "$here"/versions/{shlex.quote(version)}/venv/bin/{shlex.join(argv)}'
    )


def refusal_of(host: HostSettings, facts: HostFacts) -> tuple[str, str]:
    """Why the host cannot take part by its facts, and what to do; empty if it can."""
    if not facts.writable:
        return f"may not write to {host.folder}", "give another `folder`"
    if facts.free < host.room:
        free, needed = facts.free >> 20, host.room >> 20
        return f"{free} MiB are free, and `room` asks for {needed}", "make room there"
    if not facts.python:
        return f"no {host.python} there", "apt-get install python3"
    return "", ""


def examine(
    hosts: Sequence[HostSettings], remote_of: RemoteOf = remote_of
) -> tuple[HostReport, ...]:
    """Asks all hosts, many at a time; what is wrong with one is in its report."""

    def ask(remote: Remote, host: HostSettings) -> HostReport:
        facts = read_facts(remote, host)
        problem, hint = refusal_of(host, facts)
        lacks = lacks_of(remote, host, facts.version) if facts.version else ()
        return HostReport(host.name, facts, problem, hint, lacks)

    return on_each(hosts, remote_of, ask, at_once=_AT_ONCE)


def on_each(
    hosts: Sequence[HostSettings],
    remote_of: RemoteOf,
    do: Callable[[Remote, HostSettings], HostReport],
    *,
    at_once: int,
) -> tuple[HostReport, ...]:
    """What `do` reports of each host, with a connection to it; or why there is no report."""

    def one(host: HostSettings) -> HostReport:
        try:
            with closing(remote_of(host)) as remote:
                remote.connect(timeout_s=CONNECT_S)
                return do(remote, host)
        except PowercutError as error:
            return HostReport(host.name, problem=str(error), hint=error.hint)

    with ThreadPoolExecutor(at_once) as pool:
        return tuple(pool.map(one, hosts))


def lacks_of(remote: Remote, host: HostSettings, version: str) -> tuple[str, ...]:
    """What the doctor misses there that runs need."""
    return tuple(
        f"{probe['name']}: {probe['limit']} ({probe['remedy']})"
        for probe in doctor(remote, host, version)
        if not probe["ok"] and probe["needed"]
    )


def doctor(remote: Remote, host: HostSettings, version: str) -> list[dict[str, Any]]:
    """The findings of `powercut doctor` there.  Raises HostError."""
    done = remote.run(at(host, version, "powercut", "doctor", "--json", "-"), timeout_s=_DOCTOR_S)
    try:
        found = parse_json(done.output)
        return [
            {
                "name": str(probe["name"])[:80],
                "ok": probe["ok"] is True,
                "needed": probe["needed"] is True,
                "limit": str(probe["limit"])[:400],
                "remedy": str(probe["remedy"])[:400],
            }
            for probe in found["probes"]
        ]
    except (ValueError, KeyError, TypeError):
        raise HostError(
            f"{host.name}: powercut doctor does not run there: {last_line(done.printed)}",
            hint="powercut doctor hosts prepare makes it ready",
        ) from None
