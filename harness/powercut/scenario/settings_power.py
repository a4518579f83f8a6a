# SPDX-License-Identifier: Apache-2.0
"""How the power of a machine goes and comes that powercut did not make: commands of this host."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from powercut.scenario.settings_base import Settings
from powercut.scenario.settings_program import Command

_HOST_MAX = 255


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


_COMMAND_SCHEMA = {
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
}

Commands = Annotated[
    tuple[Command, ...],
    BeforeValidator(_listed),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "array", "items": _COMMAND_SCHEMA}]}),
]
"""Command lines, one after the other: strings, or lists of words; a single one may stand alone."""


class PowerSettings(Settings):
    """Commands of this host, each run without a shell; they must end with status 0."""

    off: Annotated[Commands, Field(min_length=1)]
    """What takes the power away at once: `VBoxManage controlvm NAME poweroff`, `ipmitool ...
    chassis power off`, a PDU, a smart plug.  Not a shutdown in order: that one flushes."""

    on: Commands = ()
    """What gives it back; none if the machine comes back after `off` without help."""

    status: Commands = ()
    """What says whether it is off: its output then holds the word `off`, `poweroff` or
    `powered off`.  With it a cut is waited for; without it, the machine's new boot id alone shows
    that there was one."""


def _is_host(value: str) -> str:
    name = value.rpartition("@")[2]
    ascii_word = value.isascii() and value.isprintable() and " " not in value
    if not ascii_word or not name or value.startswith("-") or len(value) > _HOST_MAX:
        raise ValueError("write [USER@]NAME[:PORT], or a name of ~/.ssh/config")
    return value


Host = Annotated[str, AfterValidator(_is_host)]
"""A host for ssh."""


def _is_folder(value: str) -> str:
    clean = value.isprintable() and not {"", ".", ".."} & set(value.split("/")[1:])
    if not value.startswith("/") or value.count("/") < 2 or not clean:
        raise ValueError("write an absolute path of at least two parts, such as /srv/powercut")
    return value


Folder = Annotated[str, AfterValidator(_is_folder)]
"""A folder of another system."""
