# SPDX-License-Identifier: Apache-2.0
"""qemu-storage-daemon between the captured disk and the hypervisor: an export of its own.

It opens the disk by NBD and serves it again: by NBD, as a file (FUSE), or to a virtio-blk device
over vhost-user.  It keeps nothing of a disk's contents, so whatever it has completed is at the
captured disk, and it is taken away with the hypervisor.  In a cut of the power it goes before the
hypervisor does: its end would flush.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from powercut.machine.fuse import alone_argv
from powercut.machine.package import output_of, package_of, sha256_of_file
from powercut.machine.port import Part
from powercut.machine.process import guarded, kill_for_good, spawn, wait_served
from powercut.machine.suites import suites
from powercut.model.errors import HostError
from powercut.model.machine import Export, HostCache
from powercut.model.versions import HOST, is_path
from powercut.sandbox.users import HostView

PROGRAM: Final = "qemu-storage-daemon"
_INSTALL: Final = "apt-get install qemu-system-common"
_REAP_S: Final = 10


def storage_daemon() -> Part:
    """The host's.  Raises HostError if there is none, or if it says no version."""
    return daemon_of(HOST, deadline=time.monotonic() + _REAP_S).part()


@dataclass(frozen=True)
class Daemon:
    """One daemon: what starts it, and the binary itself."""

    program: Path
    binary: Path

    def part(self) -> Part:
        """What it is, exactly.  Raises HostError if it says no version."""
        return Part(
            role="disk bridge",
            name=PROGRAM,
            version=parse_version(output_of([str(self.program), "--version"])),
            package=package_of(self.binary),
            sha256=sha256_of_file(self.binary),
        )


def daemon_of(qemu: str, *, deadline: float) -> Daemon:
    """That of the QEMU which a scenario calls `qemu`: the host's, a suite's, or the one that lies
    beside a QEMU of its own.

    `deadline` is on time.monotonic().  Raises HostError with a remedy, or DeadlineExceeded.
    """
    if qemu == HOST:
        found = shutil.which(PROGRAM)
        if found is None:
            raise HostError(f"{PROGRAM} is not installed", hint=_INSTALL)
        return Daemon(Path(found), Path(found))
    if not is_path(qemu):
        return Daemon(*suites().daemon(qemu, deadline=deadline))
    beside = Path(qemu).resolve().with_name(PROGRAM)
    if not (beside.is_file() and os.access(beside, os.X_OK)):
        raise HostError(
            f"machine.export needs the {PROGRAM} of machine.qemu, and there is no {beside}",
            hint="build it (meson's target storage-daemon/qemu-storage-daemon) and put it there, "
            "or leave machine.export out",
        )
    return Daemon(beside, beside)


def parse_version(said: str) -> str:
    """QEMU's version, of `qemu-storage-daemon version 7.2.22 (Debian 1:7.2+dfsg-7)` and more lines.

    Raises HostError if it is not that.
    """
    match = re.match(rf"{PROGRAM} version (\d\S*)", said)
    if match is None:
        raise HostError(f"this is not {PROGRAM}: its --version says {said[:80]!r}")
    return match[1]


def export_argv(
    kind: Export, disk: Path, served: Path, *, cache: HostCache, program: str = PROGRAM
) -> list[str]:
    """The daemon's command line: `disk` is the socket of the captured disk, `served` what it makes.

    A hypervisor has no cache mode of its own for a vhost-user disk: there `cache` is the daemon's.
    """
    own = kind is Export.VHOST_USER_BLK
    flags = {"direct": cache.direct if own else True, "no-flush": own and cache.no_flush}
    node = {
        "driver": "nbd",
        "node-name": "disk",
        "server": {"type": "unix", "path": str(disk)},
        "cache": flags,
    }
    export: dict[str, object] = {
        "type": kind.value,
        "id": "export",
        "node-name": "disk",
        "writable": True,
    }
    argv = [program, "--blockdev", json.dumps(node)]
    match kind:
        case Export.VHOST_USER_BLK:
            export |= {"addr": {"type": "unix", "path": str(served)}}
            export |= {"writethrough": True} if not cache.write_cache else {}
        case Export.FUSE:
            export |= {"mountpoint": str(served), "growable": False}
        case _:
            export |= {"name": ""}
            argv += ["--nbd-server", f"addr.type=unix,addr.path={served},max-connections=0"]
    argv += ["--export", json.dumps(export)]
    return [*alone_argv(), *guarded(argv)] if kind is Export.FUSE else argv


class StorageDaemon:
    """One daemon; `path` is what it serves, a socket or a file; made by its constructor."""

    def __init__(
        self,
        kind: Export,
        disk: Path,
        folder: Path,
        *,
        cache: HostCache,
        program: Path,
        timeout_s: float,
    ) -> None:
        """Returns once it serves.  Raises HostError or DeadlineExceeded."""
        self._kind = kind
        self._log = folder / "storage-daemon.log"
        served = folder.absolute() / "export.disk"
        if kind is Export.FUSE:
            served.touch()  # which the daemon mounts over
        self._argv = export_argv(kind, disk.absolute(), served, cache=cache, program=str(program))
        mounts = kind is Export.FUSE
        view = None if mounts else HostView([folder], [disk], program=program, rings=True)
        self._process = spawn(self._argv, self._log, view=view, mounts=mounts)
        self.path = served
        if kind is Export.FUSE:
            self.path = Path(f"/proc/{self._process.pid}/root{served}")
        try:
            wait_served(
                self._process,
                self._serves,
                time.monotonic() + timeout_s,
                name=PROGRAM,
                what="export",
                argv=self._argv,
                output=self._log,
            )
        except BaseException:
            self.kill()
            raise

    def kill(self, *, timeout_s: float = _REAP_S) -> None:
        kill_for_good(self._process, PROGRAM, timeout_s=timeout_s)

    def _serves(self) -> bool:
        try:
            status = self.path.stat()
        except OSError:
            return False
        return self._kind is not Export.FUSE or status.st_size > 0
