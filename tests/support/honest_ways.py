#!/usr/bin/python3 -ISB
# SPDX-License-Identifier: Apache-2.0
"""Honest programs that do what few do, and twins that lie.

    honest_ways.py WAY setup|run|check DIR

Ways; each keeps 1, 2, ... durable, and `lying-WAY` never syncs what it acknowledges:

- queue, fifo: talks to itself through a Unix socket, or a named pipe, that it makes in DIR;
- daemon: goes on in a process whose parent ends at once, as `forking` services do;
- names: says it all by the names of empty files;
- inodes: keeps the inode numbers of its files, and its check wants them back;
- memory: has segments, semaphores and queues of System V, made by key, exclusively, and its check
  makes them again;
- complaining: prints that a file system is read-only, of which it only tells;
- unread: opens its files with O_NOATIME;
- collapsing: takes blocks away from the front of its file.
"""

import ctypes
import os
import socket
import sys
import time
from pathlib import Path

OPERATIONS = 24
BLOCK = 4096


def say(text):
    os.write(int(os.environ["POWERCUT_FD"]), f"{text}\n".encode())


def sync_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


class Store:
    """Numbers, a line each, in the file `log`."""

    flags = 0

    def __init__(self, folder, lying):
        self.folder, self.lying = Path(folder), lying
        self.log = -1

    def begin(self):
        self.log = os.open(self.folder / "log", os.O_RDWR | os.O_CREAT | self.flags, 0o644)
        sync_folder(self.folder)

    def keep(self, number):
        os.pwrite(self.log, f"{number:7}\n".encode(), 8 * (number - 1))
        if not self.lying:
            os.fdatasync(self.log)

    def found(self):
        log = self.folder / "log"
        text = os.pread(os.open(log, os.O_RDONLY | self.flags), 1 << 20, 0) if log.exists() else b""
        return [n for n in range(1, OPERATIONS + 1) if text[8 * n - 8 : 8 * n] == b"%7d\n" % n]


class Queue(Store):
    """Each number goes through a Unix socket of its own in DIR."""

    def begin(self):
        super().begin()
        (self.folder / "socket").unlink(missing_ok=True)
        self.at = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.at.bind(str(self.folder / "socket"))
        self.to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.to.connect(str(self.folder / "socket"))

    def keep(self, number):
        self.to.send(str(number).encode())
        super().keep(int(self.at.recv(99)))


class Fifo(Store):
    """Each number goes through a named pipe in DIR, which is made once."""

    def begin(self):
        super().begin()
        if not (self.folder / "pipe").exists():
            os.mkfifo(self.folder / "pipe", 0o640)
        sync_folder(self.folder)
        self.pipe = os.open(self.folder / "pipe", os.O_RDWR)

    def keep(self, number):
        os.write(self.pipe, str(number).encode())
        super().keep(int(os.read(self.pipe, 99)))

    def found(self):
        kept = super().found()
        if kept and not (self.folder / "pipe").is_fifo():
            say("bad there is no pipe")
        return kept


class Daemon(Store):
    def begin(self):
        super().begin()
        if os.fork():
            os._exit(0)
        os.setsid()
        parent = os.getpid()
        if os.fork():
            os._exit(0)
        while os.getppid() == parent:  # until those that have begun it are gone
            time.sleep(0.01)


class Names(Store):
    def begin(self):
        self.places = os.open(self.folder, os.O_RDONLY)

    def keep(self, number):
        os.close(os.open(self.folder / str(number), os.O_CREAT | os.O_WRONLY, 0o644))
        if not self.lying:
            os.fsync(self.places)

    def found(self):
        return sorted(int(one.name) for one in self.folder.iterdir() if one.name.isdigit())


class Inodes(Store):
    def keep(self, number):
        path = self.folder / f"{number}.data"
        file = os.open(path, os.O_CREAT | os.O_WRONLY, 0o644)
        os.write(file, b"data")
        os.fsync(file)
        sync_folder(self.folder)
        os.pwrite(self.log, f"{os.fstat(file).st_ino:31}\n".encode(), 32 * (number - 1))
        os.close(file)
        if not self.lying:
            os.fdatasync(self.log)

    def found(self):
        log = self.folder / "log"
        kept = []
        for number, line in enumerate(log.read_text().split("\n") if log.exists() else [], 1):
            path = self.folder / f"{number}.data"
            if line.strip("\0 ") and path.exists() and path.stat().st_ino == int(line):
                kept.append(number)
        return kept


class Memory(Store):
    KEY, CREATE, EXCLUSIVE = 0x70637574, 0o1000, 0o2000

    def begin(self):
        super().begin()
        self.make()

    def make(self):
        libc = ctypes.CDLL(None, use_errno=True)
        flags = self.CREATE | self.EXCLUSIVE | 0o600
        for call, words in ((libc.shmget, (4096,)), (libc.semget, (1,)), (libc.msgget, ())):
            if call(self.KEY, *words, flags) < 0:
                error = ctypes.get_errno()
                raise OSError(error, os.strerror(error))

    def found(self):
        self.make()
        return super().found()


class Complaining(Store):
    def begin(self):
        super().begin()
        sys.stdout.write("note: on a Read-only file system this would not even start\n")

    def found(self):
        sys.stdout.write("note: on a Read-only file system this check finds the same\n")
        return super().found()


class Unread(Store):
    flags = os.O_NOATIME


class Ring(Store):
    """A number in each block of the file, the last ones."""

    def begin(self):
        super().begin()
        os.pwrite(self.log, bytes(2 * BLOCK), 0)
        os.fsync(self.log)

    def keep(self, number):
        size = os.fstat(self.log).st_size
        os.pwrite(self.log, b"%7d\n" % number + bytes(BLOCK - 8), size)
        if size >= 4 * BLOCK:
            collapse(self.log, BLOCK)
        if not self.lying:
            os.fsync(self.log)

    def found(self):
        text = (self.folder / "log").read_bytes() if (self.folder / "log").exists() else b""
        last = [int(text[at : at + 8].strip(b"\0 \n") or 0) for at in range(0, len(text), BLOCK)]
        return list(range(1, max(last, default=0) + 1))


def collapse(descriptor, length):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.fallocate(descriptor, 0x08, ctypes.c_int64(0), ctypes.c_int64(length)):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


WAYS = {
    "plain": Store,
    "queue": Queue,
    "fifo": Fifo,
    "daemon": Daemon,
    "names": Names,
    "inodes": Inodes,
    "memory": Memory,
    "complaining": Complaining,
    "unread": Unread,
    "collapsing": Ring,
}


def main(way, verb, folder):
    Path(folder).mkdir(exist_ok=True)
    if verb == "setup":
        return
    store = WAYS[way.removeprefix("lying-")](folder, way.startswith("lying-"))
    if verb == "check":
        for number in store.found():
            say(f"= {number}")
        return
    store.begin()
    say("ready")
    for number in range(1, OPERATIONS + 1):
        say(f"? {number}")
        store.keep(number)
        say(f"+ {number}")


if __name__ == "__main__":
    main(*sys.argv[1:])
