# SPDX-License-Identifier: Apache-2.0
"""The scenario that `powercut record -- PROGRAM` stands for: written down, to be edited and run."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from powercut.model.contract import ATOMIC_UNIT
from powercut.scenario.load import Scenario, parse_scenario
from powercut.scenario.settings import ProgramSettings

_NAME_MAX: Final = 64
_WITHOUT: Final = "-syncs"
_LOADER: Final = "powercut_program.py"
"""What starts a program that is a class in a test file."""

_STARTERS: Final = (("PowerCut",), ("--nocapture", "--exact"))
"""Words before a test's name in Java and in Rust, as workloads/examples/ has them."""

_ALWAYS: Final = ("PATH", "HOME", "LANG", "POWERCUT_FD", "POWERCUT_SEED", "POWERCUT_RUN")
"""The environment of every program."""


@dataclass(frozen=True)
class RecordOptions:
    """What a command line says of a recording, as it was written there.

    `mount` are mount options with commas; `seconds`, `state_timeout` and `deadline` are in
    seconds, the last for everything but the program's work.
    """

    filesystem: str = "ext4"
    size: str = "512MiB"
    atomic_unit: int = ATOMIC_UNIT
    mkfs: tuple[str, ...] = ()
    mount: str = ""
    acks: int = 500
    seconds: float = 10.0
    budget: str = "320,90s"
    state_timeout: float = 60.0
    deadline: float = 120.0
    disk_model: str = "none"
    kernel: str = "host"
    dropped: Mapping[str, str] = field(default_factory=dict)
    """Call sites of syncs, each with the name of the cell that is to run without it."""


def program_scenario(program: ProgramSettings, options: RecordOptions) -> Scenario:
    """One cell: `program`, cut once; or one for each sync that is dropped, without controls.

    Raises UsageError that names the key of what is wrong.
    """
    name = name_of(_of_test([*program.command])[0])
    if options.dropped:
        name = name[: _NAME_MAX - len(_WITHOUT)].strip("-") + _WITHOUT
    return parse_scenario(_text(name, program, options), Path(program.folder, f"{name}.yaml"))


def name_of(program: str) -> str:
    """The name of a scenario for the executable `program`."""
    plain = re.sub(r"[^a-z0-9]+", "-", Path(program).name.lower())
    return plain[:_NAME_MAX].strip("-") or "program"


def title_of(command: Sequence[str]) -> str:
    """A command line for people: the program first, and last what its environment has of its own.

    Of a test that is a program its name stands for the program.
    """
    words = list(command)
    given = list(itertools.takewhile(lambda word: "=" in word, words[1:]))
    if Path(words[0]).name != "env" or len(words) < len(given) + 2:
        return shlex.join(_of_test(words))
    words = words[len(given) + 1 :]
    always = (*_ALWAYS, "PYTHONPATH", "CLASSPATH") if _of_test(words) != words else _ALWAYS
    own = [word for word in given if word.partition("=")[0] not in always]
    title = shlex.join(_of_test([Path(words[0]).name, *words[1:]]))
    return f"{title} with {shlex.join(own)}" if own else title


def _of_test(words: list[str]) -> list[str]:
    """The words after those by which a helper starts a test; all words if none did.

    PYTHON LOADER FILE MODULE:CLASS, java ... PowerCut CLASS, BINARY --nocapture --exact NAME.
    """
    if len(words) > 3 and Path(words[1]).name == _LOADER:
        return words[3:]
    for starter in _STARTERS:
        for end in range(1 + len(starter), len(words)):
            if tuple(words[end - len(starter) : end]) == starter:
                return words[end:]
    return words


def _text(name: str, program: ProgramSettings, options: RecordOptions) -> str:
    mount = [word for word in options.mount.split(",") if word]
    budget = re.sub(r"(?<=\d)m$", "min", options.budget)
    budget = budget if budget.isdecimal() else json.dumps(budget)
    deadline = options.deadline + options.seconds
    said = shlex.join(program.command).replace("\n", " ")
    kernel = "" if options.kernel == "host" else f"  kernel: {options.kernel}\n"
    chosen = kernel + _chosen(program)
    disk = f"size: {json.dumps(options.size)}, atomic_unit: {options.atomic_unit}"
    disk += f", model: {options.disk_model}"
    verb = "audit syncs" if options.dropped else "record"
    return f"""\
# What `powercut {verb} -- {said}` did.  Edit a copy, and run it: powercut run COPY.yaml
powercut: 1
name: {json.dumps(name)}
workload:
  kind: program
  command: {json.dumps(program.command)}
  folder: {json.dumps(program.folder)}   # where the program starts, and its path begins
  at_most: {options.seconds:g}s
  state_timeout: {options.state_timeout:g}s
{chosen}disk: {{{disk}}}
filesystem:
  type: {options.filesystem}
  mkfs: {json.dumps(options.mkfs)}
  mount: {json.dumps(mount)}
cut:
  trigger: {{acks: {options.acks}}}   # or so many seconds after it began: {{after: 2s}}
explore: {{budget: {budget}}}   # crash states to recover, or how long: 5min
deadline: {deadline:g}s
{_cells(options.dropped)}"""


def _chosen(program: ProgramSettings) -> str:
    """What of the program's other settings is not as usual, a line each."""
    keys = ("env", "scratch", "root", "where", "packages", "bring", "syncs", "writeback")
    usual = ProgramSettings(kind="program", command=program.command)
    fields, given = usual.model_dump(mode="json"), program.model_dump(mode="json")
    return "".join(
        f"  {key}: {json.dumps(given[key])}\n" for key in keys if given[key] != fields[key]
    )


def _cells(dropped: Mapping[str, str]) -> str:
    """A cell for each call site; the program with all its syncs is what vouches for them."""
    if not dropped:
        return ""
    cells = [
        f"  - {{name: {name}, workload.dropped_sync: {json.dumps(key)}}}\n"
        for name, key in dropped.items()
    ]
    return f"controls: []\ncells:\n{''.join(cells)}"
