# SPDX-License-Identifier: Apache-2.0
"""Child processes that never outlive the controller, however it ends.

They have a parent-death signal, and are made by a thread that lasts (powercut.sandbox.confined).
setpriv(1) sets the signal in the child before it becomes the program.  Should the controller die
even before that, the sockets on which it listens are gone, and QEMU ends because it cannot connect.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from powercut.model.errors import DeadlineExceeded, HostError
from powercut.sandbox.confined import in_lasting_thread
from powercut.sandbox.printed import printed, tail
from powercut.sandbox.users import HostView, few_powers_argv, serving

_POLL_S: Final = 0.001
_SERVED_POLL_S: Final = 0.002
_ANOTHERS_ROOT: Final = re.compile(r"/proc/[0-9]+/root(?=/)")
_IF_PARENT_LIVES = 'test "$PPID" = "$0" || exit 125; exec "$@"'


def spawn(
    argv: Sequence[str],
    output: Path,
    *,
    pass_fds: Sequence[int] = (),
    console: Path | None = None,
    view: HostView | None = None,
    few_powers: bool = False,
    mounts: bool = False,
) -> subprocess.Popen[bytes]:
    """Starts `argv` in a session of its own; what it prints is appended to `output`.

    Its standard output is another file's if `console` is given.  Neither grows without end
    (powercut.sandbox.printed).  It inherits `pass_fds`.  Root's is no
    user of the host if it has a `view` of it; else it has `few_powers` (few_powers_argv), or those
    and the one that `mounts`: what another process serves below `/proc/PID/root` is opened
    for it.  Raises HostError if it cannot
    be started.
    """
    before = few_powers_argv(mounts=mounts) if few_powers or mounts else []
    if view is not None:
        before = serving(view)
    with contextlib.ExitStack() as opened:
        roots: list[int] = []
        if before:
            argv, roots = _with_open_roots(argv, opened)
        words = guarded(argv, before=before)
        fds = (*pass_fds, *roots)
        return in_lasting_thread(lambda: _spawn(words, output, console or output, fds))


def guarded(argv: Sequence[str], *, before: Sequence[str] = ()) -> list[str]:
    """`argv`, with `before` before it, behind what kills it when this process, which must be its
    parent, ends.

    Raises HostError if one of them is not there.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise HostError("setpriv is not installed", hint="apt-get install util-linux")
    if shutil.which(argv[0]) is None:
        raise HostError(f"{argv[0]} is not an executable file")
    guard = [setpriv, "--pdeathsig", "KILL", "--", "/bin/sh", "-c", _IF_PARENT_LIVES]
    return [*guard, str(os.getpid()), *before, *argv]


def _with_open_roots(
    argv: Sequence[str], opened: contextlib.ExitStack
) -> tuple[list[str], list[int]]:
    """`argv` with the root of another process, `/proc/PID/root`, as a folder that is `opened` here.

    What a file server serves lies in a mount namespace of its own, and the way into that needs the
    capability to trace the server.
    """
    roots: dict[str, int] = {}

    def root(found: re.Match[str]) -> str:
        if found[0] not in roots:
            roots[found[0]] = os.open(found[0], os.O_PATH | os.O_DIRECTORY)
            opened.callback(os.close, roots[found[0]])
        return f"/proc/self/fd/{roots[found[0]]}"

    try:
        words = [_ANOTHERS_ROOT.sub(root, word) for word in argv]
    except OSError as error:
        raise HostError(f"what is served cannot be opened: {error}") from None
    return words, list(roots.values())


def _spawn(
    argv: list[str], output: Path, console: Path, pass_fds: tuple[int, ...]
) -> subprocess.Popen[bytes]:
    try:
        with printed(output) as errors, printed(console) as said:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=errors if console == output else said,
                stderr=errors,
                start_new_session=True,
                pass_fds=pass_fds,
            )
    except OSError as error:
        raise HostError(f"cannot start a process: {error}") from None


def wait_served(
    process: subprocess.Popen[bytes],
    serves: Callable[[], bool],
    deadline: float,
    *,
    name: str,
    what: str,
    argv: Sequence[str],
    output: Path,
    hint: str = "",
) -> None:
    """Returns once `process`, called `name`, serves `what`.

    Raises HostError with what it printed if it ends before that, or DeadlineExceeded.
    """
    while not serves():
        if (status := process.poll()) is not None:
            raise HostError(
                f"{name} ended with status {status}\ncommand: {shlex.join(argv)}\n"
                f"output: {tail(output) or '(none)'}",
                hint=hint,
            )
        if time.monotonic() > deadline:
            raise DeadlineExceeded(f"{name} did not serve its {what} in time")
        time.sleep(_SERVED_POLL_S)


def kill_for_good(process: subprocess.Popen[bytes], name: str, *, timeout_s: float) -> None:
    """Ends it at once (SIGKILL); idempotent.  Raises DeadlineExceeded if it is still there."""
    process.kill()
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        raise DeadlineExceeded(f"{name} outlived SIGKILL by {timeout_s:.3g} s") from None


def wait_stopped(pid: int, *, timeout_s: float) -> None:
    """Returns once none of the threads runs of a process that was sent SIGSTOP.

    A thread that waits in the kernel for storage counts as one that does not run: it stops
    before it comes back from there.  Raises DeadlineExceeded.
    """
    deadline = time.monotonic() + timeout_s
    while any(state not in "TtDZX" for state in _thread_states(pid)):
        if time.monotonic() > deadline:
            raise DeadlineExceeded(f"QEMU did not stop within {timeout_s:.3g} s")
        time.sleep(_POLL_S)


def _thread_states(pid: int) -> Iterator[str]:
    """The state of each thread but the kernel's own workers for io_uring, by proc(5)."""
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            name, _, rest = stat.read_text().partition("(")[2].rpartition(")")
            if not name.startswith("iou-"):
                yield rest.split()[0]
