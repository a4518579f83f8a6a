# SPDX-License-Identifier: Apache-2.0
"""Exactly what a program on this host's files runs on."""

from __future__ import annotations

import functools
import hashlib
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.disk.root_cache import mark_used
from powercut.disk.root_image import PROGRAM
from powercut.model.errors import HostError
from powercut.model.named_path import openable
from powercut.paths import CACHE
from powercut.recover.plan import RecoveryPlan
from powercut.recover.uml.kernel import UmlKernel
from powercut.rig import commands
from powercut.rig.program_files import changed_files, program_files
from powercut.rig.recovery_kernel import program_kernel, recovery_kernel
from powercut.rig.unpacked import packages_of, unpacked_root
from powercut.scenario.settings import Parameters
from powercut.workload.port import Run
from powercut.workload.program.workload import ProgramWorkload
from powercut.workload.table import workload_of

_TIMEOUT_S: Final = 30.0


def executable_of(parameters: Parameters) -> Path:
    """The program that a cell runs, and that checks; where it lies on this host."""
    run = Run(bytes(16))
    workload = workload_of(parameters)
    program, contents = Path(workload.reader(run)[0]), workload.contents(run)
    if contents.root is None:
        return program
    inside = Path("/", PROGRAM)
    if contents.program is not None and program.is_relative_to(inside):
        return contents.program / program.relative_to(inside)
    return unpacked_root(contents.root).path / program.relative_to("/")


def kernel_of(parameters: Parameters) -> UmlKernel:
    """The User-Mode Linux that runs a cell's program.  Raises HostError if it cannot be had."""
    return recovery_kernel(program_kernel(parameters))


@dataclass(frozen=True)
class KernelOptions:
    """What of a machine is powercut's own if it is a kernel on this host: its root and what it
    mounts, by the `plan` of a recovery, and the User-Mode Linux that runs or recovers it."""

    plan: RecoveryPlan
    kernel: UmlKernel


def kernel_options(parameters: Parameters, run: Run) -> KernelOptions:
    """Those of a cell in a run.  Raises HostError if a part cannot be had."""
    plan = commands.recovery_plan(parameters, run.run_id, run.seed)
    return KernelOptions(plan, kernel_of(parameters))


def program_versions(parameters: Parameters) -> dict[str, str]:
    """The program and its root, with digests.  Raises HostError if one cannot be read."""
    program, layers = executable_of(parameters), _layers_of(parameters)
    return {
        **_root_of(parameters),
        **({"layers": layers} if layers else {}),
        "program": str(program),
        "program_sha256": sha256_of(program),
        "command_sha256": _digest_of_command(parameters, program),
    }


def require_same_program(
    parameters: Parameters, versions: Mapping[str, str], files: Mapping[str, str]
) -> None:
    """Raises HostError if the program on this host's files is not the one that was recorded.

    Another check may read what is there in another way: its word would be no evidence.  `files`
    as they were recorded tell which have changed.
    """
    root = _root_of(parameters)
    if versions.get("root_sha256", "") != root.get("root_sha256", ""):
        raise HostError(
            "the root file system has changed since the recording was made",
            hint="put back what was recorded, or record again",
        )
    if versions.get("layers", "") != _layers_of(parameters):
        raise HostError(
            "this powercut activates the layers of the disk otherwise than the one that recorded",
            hint="recover with that one, or record again",
        )
    program = executable_of(parameters)
    if versions.get("program_sha256") != sha256_of(program):
        raise program_changed(program, changed_files(files, program_files(parameters)))
    if versions.get("command_sha256") != _digest_of_command(parameters, program):
        words = " ".join(workload_of(parameters).reader(Run(bytes(16)))[:-2])
        raise program_changed(words, changed_files(files, program_files(parameters)))


def _layers_of(parameters: Parameters) -> str:
    """All that activates the layers of the disk; empty without any."""
    layers = commands.recovery_plan(parameters, bytes(16)).layers
    return "" if layers is None else layers.text


def _root_of(parameters: Parameters) -> dict[str, str]:
    """The root that was unpacked for it; nothing on the host's own files."""
    contents = workload_of(parameters).contents(Run(bytes(16)))
    if contents.root is None:
        return {}
    image = unpacked_root(contents.root)
    mark_used(image.path)
    return {**packages_of(parameters, CACHE), "root_sha256": image.sha256}


def _digest_of_command(parameters: Parameters, program: Path) -> str:
    """That of the program and the files that it is given.

    In a root of its own it is given files of the folder that was brought there, and no others.
    """
    workload = workload_of(parameters)
    assert isinstance(workload, ProgramWorkload)
    settings = workload.settings
    contents = workload.contents(Run(bytes(16)))
    if contents.root is None:
        return command_sha256((str(program), *settings.command[1:]), settings.folder)
    return command_sha256(map(str, (program, *workload.files_of_command)), "/")


def command_sha256(command: Iterable[str], folder: str) -> str:
    """One digest of all files that a command line names: the program, or an interpreter and its
    script.  What those load is not among them.  Raises HostError.
    """
    whole = hashlib.sha256()
    for word in command:
        path = Path(folder, word)
        if _is_file(path):
            whole.update(bytes.fromhex(sha256_of(path)))
    return whole.hexdigest()


def _is_file(path: Path) -> bool:
    """Also of a word that is too long for a path."""
    try:
        return path.is_file()
    except OSError:
        return False


@functools.cache
def uml_release(kernel: UmlKernel) -> str:
    """What a User-Mode Linux says that it is.  Raises HostError."""
    try:
        done = subprocess.run(
            [str(kernel.program), "--version"],
            env={"LD_LIBRARY_PATH": kernel.libraries} if kernel.libraries else {},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise HostError(f"`{kernel.program} --version` failed: {error}") from error
    return done.stdout.strip()


def program_changed(program: Path | str, files: str = "") -> HostError:
    """The refusal to ask a program that is not the one that was recorded; `files` are named."""
    return HostError(
        f"{program} has changed since the recording was made, and its check with it"
        f"{files and f': {files}'}",
        hint="put back the program that was recorded, or record again",
    )


def sha256_of(path: Path) -> str:
    """The digest of a file.  Raises HostError."""
    return _sha256(path, path.stat().st_mtime_ns if path.exists() else 0)


@functools.cache
def _sha256(path: Path, changed_ns: int) -> str:
    del changed_ns  # whoever changes a program between two trials gets another digest
    try:
        with openable(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}") from error
