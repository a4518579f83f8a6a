# SPDX-License-Identifier: Apache-2.0
"""hosts.yaml: the hosts of a cluster, and how ssh reaches each.

    powercut-hosts: 1
    defaults: {user: ci, jobs: 4, identity: ~/.ssh/cluster, known_hosts: known_hosts}
    hosts:
      - {name: alpha, address: 10.0.0.11}
      - {name: beta, address: 10.0.0.12, port: 2222, jobs: 8}

What stands in `defaults` holds for each host that does not say otherwise.  Paths begin at the
file's folder.  A mistake is told with file, line and key.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from powercut.documented import Documented
from powercut.machine.ssh import SshTarget
from powercut.model.errors import UsageError
from powercut.paths import expanded
from powercut.scenario.quantity import Size
from powercut.scenario.yaml_file import (
    Fault,
    KeyPath,
    fault_of,
    parse_yaml,
    plain,
    read_text,
    report,
)

HINT: Final = "docs/clusters.md shows a hosts file"
_NOT_A_MAPPING: Final = ("a hosts file begins with `powercut-hosts: 1`", HINT)
_OWN: Final = ("name", "address")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:%-]*")


def _is_address(text: str) -> str:
    """A name or a number; nothing that an ssh command line could take for an option."""
    if _ADDRESS.fullmatch(text) is None:
        raise ValueError(
            "should be a host name or an IP address; user and port have their own keys"
        )
    return text


def _is_folder(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._/+-]+", text) or ".." in PurePosixPath(text).parts:
        raise ValueError("should be a path of letters, digits and ./+-_, without `..`")
    if text.startswith("-"):
        raise ValueError("should not begin with -")
    return text


def _is_file(text: str) -> str:
    try:
        expanded(text)
    except UsageError:
        raise ValueError("begins with ~ and a user who has no home here") from None
    return text


class HostSettings(Documented):
    """How one host is reached, and what it may be burdened with."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
    """What reports and certificates call it."""

    address: Annotated[str, AfterValidator(_is_address)]
    """A host name, an IP address, or a name of ~/.ssh/config."""

    user: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9._-]*$")] | None = None
    """By default as ~/.ssh/config says."""

    port: Annotated[int, Field(ge=1, le=65535, strict=True)] | None = None
    """By default as ~/.ssh/config says, else 22."""

    identity: Annotated[str, AfterValidator(_is_file)] | None = None
    """The file of a private key; by default ssh's own, and those of the agent."""

    known_hosts: Annotated[str, AfterValidator(_is_file)] | None = None
    """The only file with host keys that counts; by default ssh's own."""

    jobs: Annotated[int, Field(ge=1, le=256, strict=True)] = 1
    """Trials at the same time."""

    folder: Annotated[str, AfterValidator(_is_folder)] = ".cache/powercut-cluster"
    """Where powercut, what it builds and its recordings lie there; begins at the user's home."""

    room: Size = 2 << 30
    """Bytes that stay free in the folder: with less no trial begins there."""

    python: Annotated[str, AfterValidator(_is_folder)] = "python3"
    """The Python from which powercut's environment is made there."""


class HostsFile(BaseModel):
    """A hosts file."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    version: Literal[1] = Field(alias="powercut-hosts")
    defaults: dict[str, Any] = Field(default_factory=dict)
    hosts: tuple[dict[str, Any], ...] = Field(min_length=1)


def read_hosts(path: Path) -> tuple[HostSettings, ...]:
    """The hosts in the file at `path`, in its order.

    Raises UsageError that names file, line and key of each mistake.
    """
    text = read_text(path, "hosts file", HINT)
    document = parse_yaml(text, path, _NOT_A_MAPPING)
    data = plain(document)
    faults: list[Fault] = []
    try:
        file = HostsFile.model_validate(data)
    except ValidationError as error:
        faults = [fault_of(item, (), _keys) for item in error.errors()]
        raise UsageError(report(path, document, faults), hint=HINT) from None
    for key in file.defaults:
        if key in _OWN:
            faults.append(Fault(("defaults", key), "each host has its own"))
        elif key not in HostSettings.model_fields:
            near = tuple(HostSettings.model_fields)
            faults.append(Fault(("defaults", key), "unknown key", near=near))
    hosts: dict[str, HostSettings] = {}
    for number, given in enumerate(file.hosts):
        try:
            host = HostSettings.model_validate({**file.defaults, **given})
        except ValidationError as error:
            faults += [_placed(item, number, given) for item in error.errors()]
            continue
        if host.name in hosts:
            faults.append(
                Fault(("hosts", number, "name"), "two hosts have this name", host.name, (), True)
            )
        hosts[host.name] = _with_paths(host, path)
    if faults:
        raise UsageError(report(path, document, faults), hint=HINT)
    return tuple(hosts.values())


def _placed(item: Any, number: int, given: Mapping[str, Any]) -> Fault:
    """The fault at its key in the host, or in the defaults that it has it from."""
    inherited = item["loc"] and item["loc"][0] not in given and item["type"] != "missing"
    base: KeyPath = ("defaults",) if inherited else ("hosts", number)
    return fault_of({**item, "loc": (*base, *item["loc"])}, (), _keys)


def _keys(loc: KeyPath) -> tuple[str, ...]:
    if len(loc) == 1:
        return ("powercut-hosts", "defaults", "hosts")
    return tuple(HostSettings.model_fields)


def _with_paths(host: HostSettings, file: Path) -> HostSettings:
    """`host`, its files as absolute paths."""
    given = {name: getattr(host, name) for name in ("identity", "known_hosts")}
    found = {
        name: str(file.absolute().parent / expanded(value))
        for name, value in given.items()
        if value is not None
    }
    return host.model_copy(update=found)


def target_of(host: HostSettings) -> SshTarget:
    """The way to it for ssh."""
    return SshTarget(host.address, host.user, host.port, host.identity, host.known_hosts)
