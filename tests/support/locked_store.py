# SPDX-License-Identifier: Apache-2.0
"""A program of several stores, each with a lock of its own kind, that its check respects.

A store whose lock is held gives nothing back; one that is stale the check takes.  A lock is stale
if its machine, where it names one, is this one, and its process is dead, or is none of this boot,
where it says which.  Operation N is in the store N % len(WAYS).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from python_script import write_script

WAYS: Final = ("node", "node-and-boot", "host-name", "machine-id", "pid", "start", "boot")

TEXT: Final = """
import os, socket, sys, uuid

WAYS, FORGETFUL = @WAYS@, @FORGETFUL@
NODE, BOOT = "%012x" % uuid.getnode(), open("/proc/sys/kernel/random/boot_id").read().strip()


def started(pid):
    return open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[19]


def identity(way):
    return {
        "node": NODE,
        "node-and-boot": NODE + " " + BOOT,
        "host-name": socket.gethostname(),
        "machine-id": open("/etc/machine-id").read().strip(),
        "pid": "-",
        "start": started(os.getpid()),
        "boot": BOOT,
    }[way]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def stale(way, lock):
    pid, *said = lock.split()
    pid, mine = int(pid), identity(way).split()
    if way == "boot":
        return said != mine or not alive(pid)
    if way == "start":
        return not alive(pid) or [started(pid)] != said
    if way == "node-and-boot":
        return said[0] == mine[0] and (said[1] != mine[1] or not alive(pid))
    return said == mine and not alive(pid)


def put(fd, text, way=None):
    os.write(fd, text.encode())
    if way != FORGETFUL:
        os.fdatasync(fd)


verb, folder = sys.argv[1:3]
lines = int(os.environ["POWERCUT_FD"])
say = lambda text: os.write(lines, (text + "\\n").encode())
if verb == "setup":
    os.makedirs(folder, exist_ok=True)
elif verb == "run":
    assert os.getpid() >= 3000, "a thread of the kernel that recovers may have this pid"
    logs = {}
    for way in WAYS:
        os.mkdir(folder + "/" + way)
        lock, logs[way] = (
            os.open(folder + "/" + way + "/" + name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for name in ("lock", "log")
        )
        put(lock, "%d %s\\n" % (os.getpid(), identity(way)))
        os.fsync(os.open(folder + "/" + way, os.O_RDONLY))
    os.fsync(os.open(folder, os.O_RDONLY))
    say("ready")
    for number in range(1, 1000000):
        way = WAYS[number % len(WAYS)]
        say("? %d" % number)
        put(logs[way], "%d\\n" % number, way)
        say("+ %d" % number)
        if number == @LAST@:
            break
else:
    for way in WAYS:
        place = folder + "/" + way
        if not os.path.exists(place + "/log") or not os.path.exists(place + "/lock"):
            continue
        lock = open(place + "/lock").read()
        if not lock or not stale(way, lock):
            print(way, "is held by", lock, "and I am", os.getpid(), identity(way))
            continue
        new = os.open(place + "/new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        put(new, "%d %s\\n" % (os.getpid(), identity(way)))
        os.rename(place + "/new", place + "/lock")
        for line in open(place + "/log"):
            if line.strip("\\0\\n") and line.endswith("\\n"):
                say("= " + line.strip())
"""


def locked_store(folder: Path, *, forgetful: str = "", last: int = 0) -> Path:
    """The program, made in `folder`; the store `forgetful` does not sync, and after operation
    `last` it ends, if there is one."""
    program = folder / "locked"
    text = TEXT.replace("@WAYS@", repr(WAYS)).replace("@FORGETFUL@", repr(forgetful))
    write_script(program, text.replace("@LAST@", str(last)))
    return program
