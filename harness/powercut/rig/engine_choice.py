# SPDX-License-Identifier: Apache-2.0
"""Which engine recovers the states of a recording, and how many of them at the same time.

`auto` takes the fastest engine that can do it and that works here: `raw` for a log on the device
itself, `uml` for a file system if User-Mode Linux has been seen to boot on this host, else
`guest`.  Where it has to fall back it says why.  Programs on this host's files are recovered in
User-Mode Linux, and checked on the host where that says the same (`program`).
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

from powercut.machine.patience import patience
from powercut.model.errors import HostError, UsageError
from powercut.model.machine import ImageFormat
from powercut.model.versions import HOST
from powercut.recover.uml.kernel import UmlKernel
from powercut.recover.uml.proof import PROOF_TIMEOUT_S, uml_proof
from powercut.rig import commands
from powercut.rig.recovery_kernel import program_kernel, recovery_kernel
from powercut.scenario.place import Files, place_of
from powercut.scenario.settings import Parameters


@dataclass(frozen=True)
class EngineChoice:
    """The `name` of an engine; `reason` says why it is not the fastest, empty if it is.

    `kernel` is what `uml` recovers with; None for the other engines.
    """

    name: str
    reason: str = ""
    kernel: UmlKernel | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.name}, since {self.reason}" if self.reason else self.name


def choose_engine(
    parameters: Parameters, name: str, *, after: int = 0, depth: int = 0, kernel: str = HOST
) -> EngineChoice:
    """The engine that `auto` means for recordings of a cell; others as they are called.

    `kernel` is the User-Mode Linux for `uml`: the host's, which for a program means the one that
    ran it, or that of a Debian suite.
    Raises UsageError if `name` cannot do it, HostError if it does not work here.
    """
    if depth and parameters.disk.also:
        raise UsageError(
            "second cuts are of one disk: a recovery of several is not recorded",
            hint="leave out --depth for this recording; --after works",
        )
    files = place_of(parameters).files
    if files in (Files.HOST, Files.UNPACKED):
        recorded = program_kernel(parameters) if kernel == HOST else kernel
        return _for_host_files(name, recorded, unpacked=files is Files.UNPACKED)
    if files is Files.IMAGE:
        if name not in ("auto", "guest"):
            raise UsageError(
                f"the program's check runs in a root of its own, which engine {name} does not have",
                hint="--engine guest, or leave it out",
            )
        if depth and parameters.machine.format is not ImageFormat.RAW:
            raise UsageError(
                "second cuts of a program need `machine.format: raw`: the repair of a "
                f"{parameters.machine.format.value} image is not recorded",
                hint="leave out --depth for this recording; --after works",
            )
        return EngineChoice("guest")
    image_format = parameters.machine.format
    raw = commands.is_raw(parameters)
    if raw and name in ("auto", "raw") and (after or depth) and image_format is ImageFormat.RAW:
        raise UsageError(
            "the log lies on the device itself: its recovery reads it and writes nothing, so "
            "there is no life after it that could go wrong, and nothing to be cut in it",
            hint="leave out --after and --depth for this recording",
        )
    return engine_for(image_format, raw=raw, name=name, kernel=kernel)


def _for_host_files(name: str, kernel: str, *, unpacked: bool) -> EngineChoice:
    if name in ("auto", "uml"):
        choice = engine_for(ImageFormat.RAW, raw=False, name="uml", kernel=kernel)
        # What belongs to another root is not run on the host.
        return replace(choice, name="program") if name == "auto" and not unpacked else choice
    raise UsageError(
        f"the program's check runs on this host's files, which engine {name} does not have",
        hint="--engine uml, or leave it out",
    )


def engine_for(
    image_format: ImageFormat, *, raw: bool, name: str, kernel: str = HOST
) -> EngineChoice:
    """The same for a disk that holds `image_format`; `raw` if the log has no file system.

    Raises UsageError and HostError as `choose_engine` does.
    """
    if kernel != HOST and (image_format is not ImageFormat.RAW or raw or name in ("raw", "guest")):
        raise UsageError(
            f"recovery kernel {kernel} is for engine uml, which cannot recover this recording, or "
            "was not asked for",
            hint="leave --recovery-kernel out; `machine.kernel` chooses the guest's",
        )
    if image_format is not ImageFormat.RAW:
        if name in ("auto", "guest"):
            return EngineChoice("guest")
        raise UsageError(
            f"the disk lies in a {image_format.value} image: only QEMU can open it",
            hint="--engine guest",
        )
    if raw and name in ("auto", "raw"):
        return EngineChoice("raw")
    if raw:
        raise UsageError(
            f"the log lies on the device itself: there is nothing to mount for engine {name}",
            hint="--engine raw",
        )
    if name == "raw":
        raise UsageError(
            "engine raw reads logs on a raw device, and this one lies in a file system",
            hint="--engine uml, or guest",
        )
    if name == "guest":
        return EngineChoice(name)
    recovers = recovery_kernel(kernel)
    proof = uml_proof(recovers, timeout_s=PROOF_TIMEOUT_S * patience())
    if proof.ok:
        return EngineChoice("uml", kernel=recovers)
    if kernel != HOST:
        raise HostError(f"recovery kernel {kernel} does not work here: {proof.detail}")
    reason = f"User-Mode Linux does not work here: {proof.detail}"
    if name == "uml":
        raise HostError(reason, hint=f"--engine guest, which is slower; or {proof.remedy}")
    return EngineChoice("guest", reason)


def jobs_by_default() -> int:
    """Engines that this host can keep busy."""
    return max(1, len(os.sched_getaffinity(0)))
