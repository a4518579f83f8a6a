# SPDX-License-Identifier: Apache-2.0
"""A shell in the recovered state of a program, among the files that it ran on.

The state is mounted in User-Mode Linux as for a recovery.  Around it are the host's own files, or
the program's root, unpacked on this host, also of one that was recorded in a virtual machine:
read-only, so that the program under test and its tools (`psql`, `sqlite3`) are at hand.  What is
written to the disk is gone afterwards, and the recording is not touched.
"""

from __future__ import annotations

import os
import select
import shlex
import shutil
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from powercut.crash.states import CrashState
from powercut.disk.root_image import is_image
from powercut.model.errors import HostError
from powercut.model.machine import ImageFormat
from powercut.recording.disk import DiskRecording
from powercut.recover.plan import HostRoot, Mount, Read, RecoveryPlan
from powercut.recover.state_image import image_write
from powercut.recover.uml.boot import Terminal
from powercut.recover.uml.engine import UmlEngine
from powercut.rig import commands as commands_of
from powercut.rig.recovery_kernel import program_kernel, recovery_kernel
from powercut.rig.scratch import scratch
from powercut.rig.unpacked import unpacked_root
from powercut.workload.port import MOUNT_POINT
from powercut.workload.program.workload import DIR, ProgramWorkload
from powercut.workload.table import workload_of

LEAVE: Final = "`exit` leaves"
_START_S: Final = 180.0
_STATE_S: Final = 120.0
_PERSON_S: Final = 7 * 86_400.0
_NOTHING: Final = "/bin/true"
_NEEDED: Final = ("sh", "setsid", "stty", "true")
_TTY: Final = "/dev/ttyS2"
_COMMANDS: Final = "commands"
_LOAD: Final = 4096


def open_program_shell(recording: DiskRecording, state: CrashState, *, commands: str | None) -> str:
    """Mounts `state` and gives its folder to a person; or runs `commands` there, in a shell.

    Returns why the state does not mount, empty if it does.  Raises HostError if this host cannot
    do it.
    """
    root = root_for_shell(recording)
    assert root is not None
    with scratch() as folder, _screen(interactive=commands is None) as terminal:
        if commands is not None:
            (folder / _COMMANDS).write_text(commands)
        plan = _plan(recording, root, folder)
        writes = [image_write(one) for one in recording.space.image_writes(state)]
        kernel = recovery_kernel(program_kernel(recording.system.parameters))
        with UmlEngine(recording.base, plan, kernel=kernel, terminal=terminal) as engine:
            engine.start(timeout_s=_START_S)
            seen = engine.recover(writes, timeout_s=_STATE_S)
            if not seen.recovered:
                return seen.failure
            engine.mount(timeout_s=_STATE_S)
            said = _greeting(recording, root) if commands is None else ""
            script = folder / _COMMANDS if commands is not None else None
            engine.execute(_shell(script, said), timeout_s=_PERSON_S)
    return ""


def root_for_shell(recording: DiskRecording) -> HostRoot | None:
    """What lies around the state in such a shell; None for a recording that has none.

    A root of a program's own has one if it can be unpacked here and has a shell, and if the state
    is a disk that User-Mode Linux can mount.  Raises HostError if the root cannot be had.
    """
    plan = recording.plan
    if plan is None or plan.host is not None:
        return plan.host if plan is not None else None
    raw = recording.image_format is ImageFormat.RAW
    if plan.root is None or not raw:
        return None
    files = commands_of.contents_of(recording.system.parameters)
    if files.root is None:
        return None
    if isinstance(files.root, Path) and is_image(files.root):
        return None
    base = unpacked_root(files.root).path
    if not all(
        (base / "bin" / one).exists() or (base / "usr/bin" / one).exists() for one in _NEEDED
    ):
        return None
    program = "" if files.program is None else str(files.program)
    return HostRoot(
        files.start,
        files.environment,
        base=str(base),
        program=program,
        machine=plan.root.machine,
    )


def _plan(recording: DiskRecording, host: HostRoot, folder: Path) -> RecoveryPlan:
    """The mount of a recovery, with nothing to read, and what a shell wants to know."""
    recovery = recording.plan
    mount = recovery.find(Mount) if recovery is not None else None
    if recovery is None or mount is None:
        raise HostError("a recording of a program without a file system: a bug in powercut")
    mount = replace(mount, point=f"/host{MOUNT_POINT}")
    told = ("POWERCUT_FD=1", f"TERM={os.environ.get('TERM', 'vt100')}", r"PS1=powercut:\w# ")
    kept = tuple(one for one in host.environment if not one.startswith("POWERCUT_FD="))
    around = replace(host, environment=(*kept, *told), visible=(*host.visible, str(folder)))
    return replace(recovery, steps=(mount, Read((_NOTHING,))), host=around, root=None)


def _greeting(recording: DiskRecording, root: HostRoot) -> str:
    workload = workload_of(recording.system.parameters)
    assert isinstance(workload, ProgramWorkload)
    told = "The program's check:  " + shlex.join(workload.argv("check"))
    folder, check = (MOUNT_POINT, "") if recording.imported else (DIR, f"{told}\n")
    host = root.base == "/"
    around = "are this host's files" if host else "is the root that the program ran on"
    return (
        f"Recovered by {recording.filesystem} and mounted: you are in {folder}. Around it "
        f"{around}, read-only.\n{check}Changes are lost when you leave: {LEAVE}.\n"
    )


def _shell(script: Path | None, greeting: str) -> tuple[str, ...]:
    """What PID 1 is told to start: a shell of its own session, on the person's terminal."""
    size = shutil.get_terminal_size()
    if script is None:
        shell = "bash --norc --noprofile -i || sh -i"
        lines = [
            f"exec <>{_TTY} >&0 2>&1",
            f"stty sane rows {size.lines} cols {size.columns}",
            f"printf %s {shlex.quote(greeting)}",
        ]
    else:
        shell = f"sh {shlex.quote(str(script))}"
        lines = [f"stty raw -echo <{_TTY}", f"exec </dev/null >{_TTY} 2>&1"]
    # The program's folder is there unless its `setup` made none.
    lines += [f"cd {DIR} 2>/dev/null || cd {Path(DIR).parent}", shell, "exit 0"]
    return ("/bin/sh", "-c", f"exec setsid /bin/sh -c {shlex.quote(chr(10).join(lines))}")


@contextmanager
def _screen(*, interactive: bool) -> Iterator[Terminal]:
    """This process's own keyboard and screen, relayed.

    UML is given pipes: for a terminal it would start a helper in a session of its own, which waits
    for changes of its size and outlives it.
    """
    keyboard, typed = os.pipe()
    shown, screen = os.pipe()
    ended, end = os.pipe()
    before = termios.tcgetattr(0) if interactive else None
    if before is not None:
        tty.setraw(0)
    relays = [threading.Thread(target=_relay, args=(shown, 1, ended))]
    if interactive:
        relays.append(threading.Thread(target=_relay, args=(0, typed, ended)))
    for relay in relays:
        relay.start()
    try:
        yield Terminal(keyboard, screen)
    finally:
        os.close(screen)  # UML has gone, so that this is the end of what is shown
        relays[0].join()
        os.close(end)
        for relay in relays:
            relay.join()
        if before is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        for fd in (keyboard, typed, shown, ended):
            os.close(fd)


def _relay(source: int, target: int, ended: int) -> None:
    with suppress(OSError):  # a terminal that has gone
        while source in select.select([source, ended], [], [])[0]:
            data = os.read(source, _LOAD)
            if not data:
                return
            while data:
                data = data[os.write(target, data) :]
