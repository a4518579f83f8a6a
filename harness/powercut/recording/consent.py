# SPDX-License-Identifier: Apache-2.0
"""Whether commands that a recording names are run.

A recording is data.  Those that this user has made on this host (powercut.store.own) are judged
again with the commands that they name; of any other, a bundle or a folder from elsewhere, nothing
of this host is run unless the user says so (`--run-check`), having read the command.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError
from powercut.model.versions import CHOSEN, is_path
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.store.manifest import is_own
from powercut.store.trial_dir import TRIAL_FILE, TrialDir

RUN_CHECK: Final = "--run-check"


class NotRepeated(HostError):
    """A recording that was not made here names commands, and the user has not said to run them."""


class _Consent:
    given = False


@contextmanager
def run_checks() -> Iterator[None]:
    """Within, the user has said that commands of recordings from elsewhere are to be run."""
    before, _Consent.given = _Consent.given, True
    try:
        yield
    finally:
        _Consent.given = before


def commands_of(parameters: Parameters) -> tuple[str, ...]:
    """What to judge a recording with these settings again runs, as a person would type it."""
    found = []
    workload, machine = parameters.workload, parameters.machine
    if isinstance(workload, ProgramSettings):
        found.append(shlex.join([*workload.command, "check"]))
    for key in CHOSEN:
        choice = getattr(machine, key)
        if choice is not None and is_path(choice):
            found.append(f"{choice} (machine.{key})")
    return tuple(found)


def require_consent(trial: TrialDir, parameters: Parameters, record: str = TRIAL_FILE) -> None:
    """Raises NotRepeated if the commands of a recording may not be run, which `record` names.

    Raises DamagedRecording if the recording is not as it was sealed.
    """
    require_consent_to(trial.path, record, commands_of(parameters))


def require_consent_to(folder: Path, record: str, commands: Sequence[str]) -> None:
    """The same of the recording in `folder`, whose sealed file `record` names the `commands`."""
    if not commands or _Consent.given or is_own(folder, record):
        return
    raise NotRepeated(
        f"to judge it again would run what the recording names, and it was not recorded here: "
        f"{'; '.join(commands)}",
        hint=f"read the command; if it is right, {RUN_CHECK} runs it",
    )


def foreign_commands(trials: Iterable[TrialDir]) -> tuple[str, ...]:
    """What to judge these again would run besides this user's own commands, each once."""
    found: dict[str, None] = {}
    for trial in trials:
        commands = commands_of(trial.read_record().parameters)
        if commands and not is_own(trial.path, TRIAL_FILE):
            found |= dict.fromkeys(commands)
    return tuple(found)


def not_repeated(commands: Sequence[str]) -> tuple[str, ...]:
    """What of these is not run for want of consent, each as a line that says so."""
    if _Consent.given:
        return ()
    return tuple(
        f"what needs `{command}`: the recording names it and was not made here; read it, and "
        f"{RUN_CHECK} runs it"
        for command in commands
    )
