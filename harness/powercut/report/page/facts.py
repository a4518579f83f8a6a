# SPDX-License-Identifier: Apache-2.0
"""What a run was made on, in rows for a person: environment.json without its brackets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from powercut.report import words
from powercut.store.results import RunResult

_SAID_ELSEWHERE: Final = ("powercut", "seed", "started", "selection", "options")
"""Keys of environment.json that other rows, or the command that repeats the run, say."""

_NAMES: Final = {"qemu": "QEMU", "guest": "guest image", "python": "Python"}


def facts_of(run: RunResult, environment: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Pairs of a name and what is to be known, in the order in which a person asks."""
    return [
        ("started", run.started),
        ("seed", str(run.seed)),
        ("powercut", run.powercut),
        *_of_environment(environment),
        *([("host load", words.host_load(run.load))] if run.load is not None else []),
    ]


def _of_environment(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in environment.items():
        if name in _SAID_ELSEWHERE:
            continue
        if name == "versions" and isinstance(value, list):
            yield from (("machine", _machine(one)) for one in value if isinstance(one, Mapping))
        elif name == "sessions":
            if len(value) > 1:
                starts = [str(one.get("started")) for one in value if isinstance(one, Mapping)]
                yield "gone on with", ", ".join(starts[1:])
        elif text := plain(value):
            yield _NAMES.get(name, name), text


def _machine(versions: Mapping[str, Any]) -> str:
    """The versions of one machine; its other entries follow, so that none is lost."""
    rest = dict(versions)
    qemu, package = rest.pop("qemu_version", ""), rest.pop("qemu_package", "")
    kernel, kernel_package = rest.pop("kernel_release", ""), rest.pop("kernel_package", "")
    said = []
    if qemu:
        said.append(f"QEMU {qemu}" + (f" ({package})" if package else ""))
    if kernel:
        said.append(f"Linux {kernel}" + (f" ({kernel_package})" if kernel_package else ""))
    return "; ".join([*said, *([plain(rest)] if rest else [])])


def plain(value: Any) -> str:
    """A value of JSON as a person writes it."""
    if isinstance(value, Mapping):
        pairs = ((name, plain(item)) for name, item in value.items())
        return "; ".join(f"{name}: {text}" for name, text in pairs if text)
    if isinstance(value, list | tuple):
        return ", ".join(text for item in value if (text := plain(item)))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
