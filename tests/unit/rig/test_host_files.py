# SPDX-License-Identifier: Apache-2.0
"""A program that changed since its recording is noticed, whichever of its files changed."""

import os
import time

import pytest

from powercut.machine.guest.kernel_source import given_kernel
from powercut.model.errors import HostError
from powercut.rig.host_files import command_sha256, require_same_program, sha256_of
from powercut.rig.program_files import program_files
from powercut.scenario.settings import Parameters, ProgramSettings


@pytest.fixture
def files(tmp_path):
    for name in ("interpreter", "script"):
        (tmp_path / name).write_text("first")
    return tmp_path


def cell(folder) -> Parameters:
    words = ("./interpreter", "script", "no-such-file", "w" * 5000)
    return Parameters(workload=ProgramSettings(kind="program", command=words, folder=str(folder)))


def versions(folder) -> dict[str, str]:
    words = (str(folder / "interpreter"), *cell(folder).workload.command[1:])
    return {
        "program_sha256": sha256_of(folder / "interpreter"),
        "command_sha256": command_sha256(words, str(folder)),
    }


@pytest.mark.parametrize("name", ["interpreter", "script"])
def test_no_file_that_the_command_names_may_change(files, name):
    then = versions(files)
    require_same_program(cell(files), then, {})
    (files / name).write_text("second, and longer")
    with pytest.raises(HostError, match=r"interpreter.* has changed since the recording"):
        require_same_program(cell(files), then, {})


@pytest.mark.parametrize("name", ["interpreter", "script"])
def test_the_file_that_changed_is_named(files, name):
    then, kept = versions(files), program_files(cell(files))
    require_same_program(cell(files), then, kept)
    (files / name).write_text("second, and longer")
    with pytest.raises(HostError, match=rf"and its check with it: (\./)?{name} differs$"):
        require_same_program(cell(files), then, kept)


def test_a_recording_without_the_digest_of_its_command_is_another_programs(files):
    then = versions(files)
    del then["command_sha256"]
    with pytest.raises(HostError, match="has changed since"):
        require_same_program(cell(files), then, {})


def traced(parameters: Parameters) -> Parameters:
    workload = parameters.workload.model_copy(update={"syncs": "traced"})
    return parameters.model_copy(update={"workload": workload})


@pytest.mark.parametrize("name", ["interpreter", "script"])
def test_a_traced_program_may_not_change_either(files, name):
    """It is the program that checks, not its tracer."""
    then = versions(files)
    require_same_program(traced(cell(files)), then, {})
    (files / name).write_text("second, and longer")
    with pytest.raises(HostError, match=r"interpreter.* has changed since the recording"):
        require_same_program(traced(cell(files)), then, {})


@pytest.mark.parametrize(
    "read", [sha256_of, lambda path: given_kernel(path, deadline=time.monotonic() + 60)]
)
def test_a_pipe_is_not_waited_for(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HostError, match="a pipe, and no file or folder"):
        read(tmp_path / "pipe")
