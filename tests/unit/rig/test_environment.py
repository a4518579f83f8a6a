# SPDX-License-Identifier: Apache-2.0
"""Variables of the environment: what does not reach a program is named, what is asked for does."""

import click
import pytest
from pydantic import ValidationError

from powercut.cli.program_options import variables
from powercut.rig import environment
from powercut.rig.environment import left_out, withheld
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
    assert left_out({**here, **session, "POWERCUT_FD": "3"}, ()) == names
    assert left_out(here, ("TZ=UTC", "LEDGER_FORGETS=0")) == ("PYTHONPATH", "VIRTUAL_ENV")


FORGETS = 'test "$LEDGER_FORGETS" || sync'
HERE = {"LEDGER_FORGETS": "1", "LEDGER": "2", "CI_JOB": "3", "HOME": "/"}


def at(folder, *command: str, **settings) -> Parameters:
    return Parameters(
        workload=ProgramSettings(kind="program", command=command, folder=str(folder), **settings)
    )


def executable(path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("file", "command", "root"),
    [
        ("ledger", ("./ledger",), "host"),
        ("ledger", ("/bin/sh", "ledger"), "host"),
        ("forgets.sh", ("./ledger",), "host"),  # which lies beside it
        ("forgets.sh", ("./ledger",), "debian"),  # which goes along
    ],
)
def test_a_variable_that_the_program_s_files_name_is_told_and_others_are_counted(
    tmp_path, file, command, root
):
    executable(tmp_path / "ledger", "#!/bin/sh\n. ./forgets.sh\n")
    executable(tmp_path / file, f"#!/bin/sh\n{FORGETS}\n")
    found = withheld(at(tmp_path, *command, root=root), HERE)
    assert (found.names, found.others, found.searched) == (("LEDGER_FORGETS",), 2, True)
    assert found.words.startswith("3 environment variables not passed (")
    assert found.words.endswith("); the program's files mention LEDGER_FORGETS")


def test_a_word_of_the_command_counts_as_the_program_s_own(tmp_path):
    assert withheld(at(tmp_path, "/bin/true", FORGETS), HERE).names == ("LEDGER_FORGETS",)


def test_a_name_is_found_wherever_it_lies_in_a_large_file(tmp_path, monkeypatch):
    """Among bytes that are no text, and across the pieces in which it is read."""
    executable(tmp_path / "ledger", "")
    monkeypatch.setattr(environment, "_READ", 64)
    for gap in range(40, 70):
        (tmp_path / "ledger").write_bytes(b"\xff" * gap + b"\0LEDGER_FORGETS\0" + b"\xff" * gap)
        found = withheld(at(tmp_path, "./ledger"), {"LEDGER_FORGETS": "1", "CI_JOB": "3"})
        assert found.names == ("LEDGER_FORGETS",)


@pytest.mark.parametrize("command", [("./ledger",), ("no-such-program",)])
def test_where_the_files_cannot_be_read_all_are_named(tmp_path, monkeypatch, command):
    executable(tmp_path / "ledger", FORGETS)
    monkeypatch.setattr(environment, "_OWN_MAX", 10)
    found = withheld(at(tmp_path, *command), HERE)
    assert (found.names, found.others) == (("CI_JOB", "LEDGER", "LEDGER_FORGETS"), 0)
    assert "(pass one with --env, or workload.env): CI_JOB, LEDGER, LEDGER_FORGETS" in found.words


def test_one_that_no_file_names_is_counted_and_one_that_is_passed_is_not(tmp_path):
    executable(tmp_path / "ledger", "sync")
    here = {"CI_JOB": "3", "LEDGER_FORGETS": "1"}
    found = withheld(at(tmp_path, "./ledger", env=("LEDGER_FORGETS=1",)), here)
    assert (found.names, found.others) == ((), 1)
    assert found.words.startswith("1 environment variable not passed (")
    assert found.words.endswith("; the program's files mention none of them")
    assert withheld(at(tmp_path, "./ledger", env=("LEDGER_FORGETS=1",)), {"HOME": "/"}).words == ""
    assert withheld(Parameters(), HERE).words == ""


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
