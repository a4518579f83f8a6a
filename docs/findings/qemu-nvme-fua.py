#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does QEMU's NVMe disk obey the bit FUA of a write?  Needs no guest: QEMU's qtest protocol plays the driver.

    python3 qemu-nvme-fua.py [QEMU]

It writes one block with FUA (NVM command set, write, bit 30 of CDW12), waits for the completion, and looks at what
nbdkit, which serves the disk, was asked by then: a write with FUA, or a flush behind the write, obeys.  The twin is the
same disk with its cache off (cache=writethrough), for which QEMU has to sync each write.  Exit status: 0 FUA is
obeyed, 1 it is not, 77 something is missing.  Needs qemu-system-x86, nbdkit.
"""

import contextlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BAR, ADMIN_SQ, ADMIN_CQ, IO_SQ, IO_CQ, DATA = 0xE0000000, 0x100000, 0x101000, 0x102000, 0x103000, 0x104000
SLOT = 0x80000000 | 4 << 11
WRITE, FUA = 0x01, 1 << 30
TIMEOUT_S = 30


class Guest:
    """The registers and the memory of a machine without a processor."""

    def __init__(self, qemu: str, folder: Path, cache: str) -> None:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(folder / "qtest"))
        listening.listen()
        listening.settimeout(TIMEOUT_S)
        self.process = subprocess.Popen(
            [qemu, "-nodefaults", "-display", "none", "-machine", "pc,accel=tcg", "-S", "-m", "64M",
             "-qtest", f"unix:{folder}/qtest", "-qtest-log", "/dev/null",
             "-drive", f"if=none,id=d,format=raw,cache={cache},file=nbd+unix:///?socket={folder}/nbd",
             "-device", "nvme,drive=d,serial=1,addr=4"],
            stderr=(folder / "qemu").open("w"),
        )
        self.lines = listening.accept()[0].makefile("rw")

    def ask(self, *words: object) -> str:
        self.lines.write(" ".join(hex(w) if isinstance(w, int) else str(w) for w in words) + "\n")
        self.lines.flush()
        while (answer := self.lines.readline()).startswith("IRQ"):
            pass
        if not answer.startswith("OK"):
            raise SystemExit(f"QEMU says {answer!r} to {words}")
        return answer[3:].strip()

    def put(self, address: int, data: bytes) -> None:
        self.ask("write", address, len(data), "0x" + data.hex())

    def set_up(self) -> None:
        """Enables the PCI function and the controller, and makes one pair of queues for I/O."""
        for register, value in ((0x10, BAR), (0x14, 0), (0x04, 0x6)):  # address; memory, bus master
            self.ask("outl", 0xCF8, SLOT | register)
            self.ask("outl", 0xCFC, value)
        self.ask("writel", BAR + 0x24, 0x000F000F)  # AQA: 16 entries each
        self.ask("writeq", BAR + 0x28, ADMIN_SQ)
        self.ask("writeq", BAR + 0x30, ADMIN_CQ)
        self.ask("writel", BAR + 0x14, 6 << 16 | 4 << 20 | 1)  # CC: sizes of entries, enable
        self.until(lambda: int(self.ask("readl", BAR + 0x1C), 16) & 1, "the controller is ready")
        self.command(0, 0, 0x05, prp=IO_CQ, cdw10=15 << 16 | 1, cdw11=1)
        self.command(0, 1, 0x01, prp=IO_SQ, cdw10=15 << 16 | 1, cdw11=1 << 16 | 1)

    def command(self, queue: int, at: int, opcode: int, *, prp: int, cdw10=0, cdw11=0, cdw12=0, nsid=0) -> None:
        """Submits one command and waits for its completion."""
        sq, cq = ((ADMIN_SQ, ADMIN_CQ), (IO_SQ, IO_CQ))[queue]
        entry = struct.pack("<BBHIQQQQIIIIII", opcode, 0, at, nsid, 0, 0, prp, 0, cdw10, cdw11, cdw12, 0, 0, 0)
        self.put(sq + at * 64, entry)
        self.ask("writel", BAR + 0x1000 + 8 * queue, at + 1)
        done = cq + at * 16 + 12
        self.until(lambda: int(self.ask("readl", done), 16) >> 16 & 1, f"command {opcode:#x}")
        status = int(self.ask("readl", done), 16) >> 17
        if status:
            raise SystemExit(f"command {opcode:#x} ended with status {status:#x}")

    def until(self, condition, what: str) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not condition():
            if time.monotonic() > deadline:
                raise SystemExit(f"QEMU did not come to it: {what}")
            time.sleep(0.001)


def asked_of_the_disk(qemu: str, cache: str) -> list[str]:
    """What the disk was asked from the write to its completion."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        log = folder / "log"
        server = subprocess.Popen(["nbdkit", "-f", "-U", folder / "nbd", "--filter=log", "memory", "1M", f"logfile={log}"])
        stack.callback(lambda: (server.kill(), server.wait()))
        while not (folder / "nbd").exists():
            time.sleep(0.01)
        guest = Guest(qemu, folder, cache)
        stack.callback(lambda: (guest.process.kill(), guest.process.wait()))
        guest.set_up()
        guest.put(DATA, b"\xab" * 512)
        guest.command(1, 0, WRITE, prp=DATA, nsid=1, cdw10=8, cdw12=FUA)
        seen = re.findall(r"connection=\d+ (Write .*offset=0x1000 .*fua=\d|Flush)", log.read_text())
        return [re.sub(r"id=\d+ ", "", line) for line in seen]


def main() -> int:
    qemu = sys.argv[1] if len(sys.argv) > 1 else "qemu-system-x86_64"
    for tool in (qemu, "nbdkit"):
        if not shutil.which(tool):
            print(f"{tool} is not installed")
            return 77
    print(subprocess.run([qemu, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0])
    obeyed = {}
    for cache in ("writeback", "writethrough"):
        asked = asked_of_the_disk(qemu, cache)
        obeyed[cache] = bool(asked) and (asked[-1] == "Flush" or asked[-1].endswith("fua=1"))
        print(f"write with FUA, cache={cache:13} the disk was asked: {', '.join(asked)}")
    if not obeyed["writethrough"]:
        raise SystemExit("the twin was not synced: this script sees nothing")
    return 0 if obeyed["writeback"] else 1


if __name__ == "__main__":
    sys.exit(main())
