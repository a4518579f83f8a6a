#!/usr/bin/python3 -ISB
# SPDX-License-Identifier: Apache-2.0
"""A store whose order of writes is the page cache's to choose, and twins that choose it themselves.

    pressed_store.py WAY VERB DIR

Ways:

- undo-first: a page is overwritten in place once the record that undoes it is durable;
- overwrite-first: before that is durable, though both are before the ack;
- data-first: a header in a mapping says how many records there are, once they are durable;
- header-first: it is stored before they are, though both are synced before the ack;
- WAY-alone: so is WAY, and `run` first kills every process that it may kill, as some servers do.

Where the kernel writes nothing before it is told to, each way leaves the same on the disk.
"""

import mmap
import os
import signal
import sys

PAGE = 4096
RECORD = 16
SIZE = 1 << 20


def say(text):
    os.write(int(os.environ["POWERCUT_FD"]), f"{text}\n".encode())


def opened(folder, name):
    return os.open(f"{folder}/{name}", os.O_RDWR)


def setup(folder):
    from pathlib import Path  # takes longer to import than all that a check does, hundreds of times

    Path(folder).mkdir(exist_ok=True)
    for name in ("undo", "page", "log", "header"):
        Path(folder, name).write_bytes(bytes(SIZE if name == "log" else PAGE))
        os.fsync(opened(folder, name))
    os.fsync(os.open(folder, os.O_RDONLY))


class Overwriting:
    """One page, and what undoes its last change."""

    def __init__(self, folder, hasty):
        self.undo, self.page, self.hasty = opened(folder, "undo"), opened(folder, "page"), hasty

    def keep(self, number):
        record = f"{number:15}\n".encode()
        os.pwrite(self.undo, record, 0)
        if self.hasty:
            os.pwrite(self.page, record, 0)
        os.fdatasync(self.undo)
        os.pwrite(self.page, record, 0)
        os.fdatasync(self.page)

    def found(self):
        undo, page = (
            int(os.pread(fd, RECORD, 0).strip(b"\0 \n") or 0) for fd in (self.undo, self.page)
        )
        if page > undo:
            say(f"bad the page is that of {page}, and what undoes it is that of {undo}")
        return page


class Mapped:
    """A log, and a header in a mapping."""

    def __init__(self, folder, hasty):
        self.log, self.hasty = opened(folder, "log"), hasty
        self.header = mmap.mmap(opened(folder, "header"), PAGE)

    def keep(self, number):
        record = f"{number:15}\n".encode()
        if self.hasty:
            self.header[:RECORD] = record
        os.pwrite(self.log, record, RECORD * (number - 1))
        os.fdatasync(self.log)
        self.header[:RECORD] = record
        self.header.flush()

    def found(self):
        count = int(self.header[:RECORD].strip(b"\0 \n") or 0)
        for number in range(1, count + 1):
            if os.pread(self.log, RECORD, RECORD * (number - 1)).strip() != f"{number}".encode():
                say(f"bad the header counts {count} records, and {number} is not there")
                return number - 1
        return count


def kill_others():
    spared = {1, os.getpid(), os.getppid()}
    for other in {int(one.name) for one in os.scandir("/proc") if one.name.isdigit()} - spared:
        try:
            os.kill(other, signal.SIGKILL)
        except OSError:
            continue  # it has gone


def main(way, verb, folder):
    way, alone = way.removesuffix("-alone"), way.endswith("-alone")
    if alone and verb == "run":
        kill_others()
    if verb == "setup":
        setup(folder)
        return
    kind = Mapped if way in ("data-first", "header-first") else Overwriting
    store = kind(folder, hasty=way in ("overwrite-first", "header-first"))
    if verb == "run":
        say("ready")
        for number in range(1, SIZE // RECORD):
            say(f"? {number}")
            store.keep(number)
            say(f"+ {number}")
    elif count := store.found():
        say(f"= 1-{count}")


if __name__ == "__main__":
    main(*sys.argv[1:])
