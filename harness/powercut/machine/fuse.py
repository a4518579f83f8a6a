# SPDX-License-Identifier: Apache-2.0
"""A disk that is served by NBD, as a file that a hypervisor can open or map.

nbdfuse (of libnbd) serves the file; the kernel's FUSE stands between.  What that makes of
a program's requests (measured with Linux 6.18 and nbdfuse 1.14,
tests/vm/campaign/test_run_files.py):

- pwrite, O_DIRECT or not: a write at the disk before the call returns.  FUSE's page cache
  keeps a copy for readers and holds nothing back.
- fsync, fdatasync: a flush at the disk.
- a store to a shared mapping: nothing, until the kernel writes the page back, at fsync or
  when it pleases: whole pages, in any order, their contents of that moment.

So a mapping has a volatile cache above the disk, the host's page cache.  A power cut takes
it (`kill`: what the kernel would write back later finds no server), an end in order does
not (`close`).

Nothing has to be unmounted.  nbdfuse is alone in a mount namespace of its own (in a user
namespace, too, where the user is not root), and the mount goes with it.  Others reach the
file through /proc/PID/root (proc(5)), where the kernel asks for the right to trace nbdfuse,
which its own user has.

In a chroot whose root is no mount point (a folder that was filled with a distribution), the
propagation of that mount cannot be changed, and a mount below it could come out on the host.  The
file is then served below /proc, which is a mount of its own in every chroot that works.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final, Self
from urllib.parse import quote

from powercut.machine.port import NbdFile
from powercut.machine.process import guarded, kill_for_good, spawn, wait_served
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.paths import PARTS, REBUILD

_REAP_TIMEOUT_S: Final = 10
_IN_CHROOT: Final = Path("/proc/driver")
"""A folder that every /proc has; nbdfuse, alone in its namespace, mounts over it."""

_GROWING: Final = PARTS / "bin" / "powercut-growing-file"

_PRIVATE_PROC: Final = 'mount --make-rprivate /proc && exec "$@"'


class NbdFuse:
    """A file, `path`, whose bytes are those of an NBD server; made by its constructor.

    In the mount namespace of the process `pid` it is called `inside`.  One that `grows` is the file
    that lies on the server's disk (docs/formats/growing-file.md), and powercut's own program
    serves it in place of nbdfuse.

    `folder` receives an empty folder, `export`, and what nbdfuse says, `nbdfuse.log`; for the
    server's export of a name `export-NAME` and `nbdfuse-NAME.log`.
    """

    @classmethod
    def of(cls, disk: NbdFile, folder: Path, *, timeout_s: float) -> Self:
        """What a machine opens that is to have `disk` as a file."""
        return cls(disk.socket, folder, timeout_s=timeout_s, grows=disk.grows, export=disk.export)

    def __init__(
        self,
        socket: Path,
        folder: Path,
        *,
        timeout_s: float,
        grows: bool = False,
        export: str = "",
    ) -> None:
        """Returns once the file is there.  Raises HostError or DeadlineExceeded."""
        suffix = f"-{export}" if export else ""
        self._log = folder / f"nbdfuse{suffix}.log"
        if grows and not _GROWING.exists():
            raise HostError(f"files that grow are not built: no {_GROWING}", hint=REBUILD)
        if not grows and shutil.which("nbdfuse") is None:
            raise HostError("nbdfuse is not installed", hint="apt-get install libnbd-bin")
        own = folder.absolute() / f"export{suffix}"
        mountpoint = _IN_CHROOT if root_is_no_mount() else own
        mountpoint.mkdir(exist_ok=mountpoint == _IN_CHROOT)
        self._argv = _argv(mountpoint / "disk", socket, grows=grows, export=export)
        self._process = spawn(self._argv, self._log, mounts=True)
        self.pid = self._process.pid
        self.inside = mountpoint / "disk"
        self.path = Path(f"/proc/{self.pid}/root{self.inside}")
        try:
            wait_served(
                self._process,
                self._serves,
                time.monotonic() + timeout_s,
                name="nbdfuse",
                what="file",
                argv=self._argv,
                output=self._log,
                hint="`machine.aio` and pmem need libnbd-bin, /dev/fuse and, without root, user "
                "namespaces",
            )
        except BaseException:
            self.kill()
            raise

    def kill(self, *, timeout_s: float = _REAP_TIMEOUT_S) -> None:
        """Ends it at once (SIGKILL): the kernel can write nothing back any more; idempotent."""
        kill_for_good(self._process, "nbdfuse", timeout_s=timeout_s)

    def close(self, *, timeout_s: float) -> None:
        """Lets the kernel write back what a mapping has left, then ends; idempotent.

        Raises HostError or DeadlineExceeded if it could not be written.
        """
        if self._process.poll() is not None:
            return
        try:
            # A process of its own: fsync(2) knows no deadline.
            done = subprocess.run(
                ["sync", str(self.path)], capture_output=True, check=False, timeout=timeout_s
            )
            if done.returncode:
                raise HostError(f"cannot write the host's page cache back: {done.stderr.decode()}")
        except subprocess.TimeoutExpired:
            raise DeadlineExceeded(
                f"the host's page cache was not written back within {timeout_s:.3g} s"
            ) from None
        finally:
            self.kill()

    def _serves(self) -> bool:
        try:
            return self.path.stat().st_size > 0
        except OSError:
            return False


def root_is_no_mount() -> bool:
    """Whether this is a chroot into an ordinary folder (proc(5): mountinfo, field 5)."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return all(line.split()[4] != "/" for line in lines)


def alone_argv() -> list[str]:
    """The command that runs another one, whose words follow, in a mount namespace of its own."""
    alone = ["unshare", "--mount", "--propagation"]
    if root_is_no_mount():
        # Only root: the kernel makes no user namespace for a process in a chroot.
        return [*alone, "unchanged", "sh", "-c", _PRIVATE_PROC, "sh"]
    return [*alone, "private", *(["--map-root-user"] if os.geteuid() else [])]


def _argv(file: Path, socket: Path, *, grows: bool, export: str) -> list[str]:
    # To enter a user namespace is to change credentials, which forgets who is to be told of
    # the parent's death (prctl(2), PR_SET_PDEATHSIG): so it is said again after that.
    served = str(socket.absolute())
    if grows:
        return [*alone_argv(), *guarded([str(_GROWING), str(file.parent), served])]
    source = [f"nbd+unix:///{export}?socket={quote(served)}"] if export else ["--unix", served]
    return [*alone_argv(), *guarded(["nbdfuse", str(file), *source])]
