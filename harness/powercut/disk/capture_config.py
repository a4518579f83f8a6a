# SPDX-License-Identifier: Apache-2.0
"""How a capture disk is started: its settings, and the command line that follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from powercut.model.binding import Binding
from powercut.model.contract import DeviceContract
from powercut.paths import CAPTURE_PLUGIN
from powercut.sandbox.confined import preloading
from powercut.scenario.settings_errors import DiskError
from powercut.scenario.settings_several import DiskPart

_SECTOR: Final = 512


@dataclass(frozen=True)
class CaptureConfig:
    """What a capture disk serves and promises.

    `base` is never modified.  `log` is the path of the recording without suffix, or
    None to record nothing; its files must not exist yet.  `binding` says in the log's header
    whose it is.  `sockets` is a folder in
    which the disk makes one of its own (the system's temporary folder if None);
    `control` is an additional socket for control commands of others.  Snapshots and logs go to
    the folders of those and of `log`, or to one that it `writes`.  `offer_flush` is
    False for a disk that tells its clients that it has neither flush nor FUA: QEMU then
    drops the guest's flushes, as cache=unsafe does on a file.  With `parts` it serves several
    disks, each as an export of its name, and no other; one that is silent offers neither.
    `errors` are what it makes from `CaptureDisk.inject` on, until a cut.  A `slow` one takes its
    time for a flush in 50 (harness/capture/slow.h).
    """

    base: Path
    log: Path | None
    contract: DeviceContract = field(default_factory=DeviceContract)
    binding: Binding = field(default_factory=Binding)
    sockets: Path | None = None
    control: Path | None = None
    writes: tuple[Path, ...] = ()
    offer_flush: bool = True
    parts: tuple[DiskPart, ...] = ()
    errors: tuple[DiskError, ...] = ()
    slow: bool = False
    plugin: Path = CAPTURE_PLUGIN


def capture_argv(config: CaptureConfig, directory: Path, control_fd: int) -> tuple[str, ...]:
    """The command line of nbdkit.

    It listens on `directory`/nbd, and owns `directory`.  `control_fd` is the inherited
    control connection.
    """
    contract = config.contract
    on_off = {True: "on", False: "off"}
    settings = {
        "base": config.base.absolute(),
        "log": config.log.absolute() if config.log else None,
        "control": config.control.absolute() if config.control else None,
        "control-fd": control_fd,
        "directory": directory,
        "run-id": config.binding.run_id.hex(),
        "binding": config.binding.digest.hex(),
        "seed": config.binding.seed,
        "cell": config.binding.cell,
        "volatile-cache": on_off[contract.volatile_cache],
        "offer-flush": on_off[config.offer_flush],
        "flush": contract.flush.value,
        "fua": contract.fua.value,
        "ordered": on_off[contract.ordered],
        "atomic-unit": contract.atomic_unit,
        "cache-size": contract.cache_size,
        "flush-latency-ns": contract.flush_latency_ns,
        "fua-latency-ns": contract.fua_latency_ns,
        "slow": on_off[config.slow],
    }
    command = ["nbdkit", "--foreground", "--unix", str(directory / "nbd"), str(config.plugin)]
    command += [f"{key}={value}" for key, value in settings.items() if value is not None]
    command += [
        f"part={part.name}:{part.offset}:{part.size}:{part.flush.value}:{part.fua.value}"
        + (":silent" if part.silent else "")
        for part in config.parts
    ]
    disks = {part.name: (part.offset // _SECTOR, part.size // _SECTOR) for part in config.parts}
    command += [f"error={error.told(disks)}" for error in config.errors]
    return tuple(command)


def capture_environment(config: CaptureConfig, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of nbdkit: `environment` and what harness/capture/hangup.c is for."""
    return preloading([hangup_library(config)], environment)


def hangup_library(config: CaptureConfig) -> Path:
    """What nbdkit is started with (harness/capture/hangup.c)."""
    return config.plugin.absolute().with_name("nbdkit-capture-hangup.so")
