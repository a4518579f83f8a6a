# SPDX-License-Identifier: Apache-2.0
"""Variables of the environment: what does not reach a program is named, what is asked for does."""

import click
import pytest
from pydantic import ValidationError

from powercut.cli.program_options import variables
from powercut.rig.environment import withheld
from powercut.scenario.program_text import RecordOptions, program_scenario
from powercut.scenario.settings import Parameters, ProgramSettings
from powercut.workload.port import Run
from powercut.workload.table import workload_of

OPTIONS = RecordOptions("ext4", "64MiB", 4096, (), "", 20, 5.0, "16", 60.0, 60.0)


def program(*env: str) -> ProgramSettings:
    return ProgramSettings(kind="program", command=("/bin/cat",), folder="/", env=env)


def test_what_may_change_a_program_is_named_and_what_is_of_a_terminal_is_not():
    here = {"LEDGER_FORGETS": "1", "PYTHONPATH": "/x", "TZ": "UTC", "VIRTUAL_ENV": "/venv"}
    session = {"HOME": "/", "PATH": "/bin", "LC_ALL": "C", "TERM": "xterm", "SSH_TTY": "/dev/pts/0"}
    names = ("LEDGER_FORGETS", "PYTHONPATH", "TZ", "VIRTUAL_ENV")
    assert withheld({**here, **session, "POWERCUT_FD": "3"}, ()) == names
    assert withheld(here, ("TZ=UTC", "LEDGER_FORGETS=0")) == ("PYTHONPATH", "VIRTUAL_ENV")


def test_what_is_asked_for_reaches_the_program_and_stands_in_its_scenario(monkeypatch):
    monkeypatch.setenv("LEDGER_FORGETS", "1")
    env = variables(["LEDGER_FORGETS", "A=b c", "EMPTY="])
    assert env == ("LEDGER_FORGETS=1", "A=b c", "EMPTY=")
    ((_, parameters),) = program_scenario(program(*env), OPTIONS).cells
    assert parameters.workload.env == env
    contents = workload_of(parameters).contents(Run(bytes(16)))
    assert contents.environment[-3:] == env
    usual = workload_of(Parameters(workload=program())).contents(Run(bytes(16)))
    assert contents.environment == (*usual.environment, *env)
    with pytest.raises(click.BadParameter, match="UNSET_HERE is not set here"):
        variables(["UNSET_HERE"])


@pytest.mark.parametrize("word", ["A", "1A=b", "=b", "A=b\nC=d", "POWERCUT_FD=9", "A B=c"])
def test_what_is_no_variable_is_refused(word):
    with pytest.raises(ValidationError):
        program(word)
