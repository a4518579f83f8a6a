# SPDX-License-Identifier: Apache-2.0
"""A qemu-storage-daemon with one disk, and a writer that is to it what a guest is.

The disk is a chain of qcow2 images in one folder; the writer, one qemu-io, reaches it by NBD.  So
block jobs run in the code that a hypervisor runs, and no guest is needed.  The NBD server has an
abstract address and QMP goes over pipes: nothing is left behind, whoever is killed.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
from pathlib import Path
from typing import Any

PROMPT = b"qemu-io> "
CACHES: dict[str, dict[str, bool]] = {
    "writeback": {"direct": False, "no-flush": False},
    "none": {"direct": True, "no-flush": False},
    "unsafe": {"direct": False, "no-flush": True},
}
SLOW = 1
"""Bytes per second: a job copies its first piece, and then waits until its speed is changed."""


class JobFailed(Exception):
    """A command or a job that QEMU has refused or given up."""


class StorageDaemon:
    """One daemon in `folder`; made by its constructor, ended by `kill`."""

    def __init__(self, folder: Path, qemu: str = "qemu-storage-daemon") -> None:
        """`qemu` may be a system emulator, too: its machine has nothing, and does not run."""
        self._folder = folder
        words = ["--chardev", "stdio,id=qmp", "--monitor", "chardev=qmp"]
        if "qemu-system" in qemu:
            words = ["-machine", "none", "-nodefaults", "-display", "none", "-S"]
            words += ["-chardev", "stdio,id=qmp", "-mon", "chardev=qmp,mode=control"]
        self._process = subprocess.Popen(
            [qemu, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._speed = SLOW
        self._events: list[dict[str, Any]] = []
        self._read()  # the greeting
        self.command("qmp_capabilities")
        self._address = f"powercut-{os.getpid()}-{secrets.token_hex(8)}"
        address = {"type": "unix", "data": {"path": self._address, "abstract": True}}
        self.command("nbd-server-start", addr=address)

    def command(self, verb: str, /, **arguments: Any) -> Any:
        """What QMP returns; underscores in the arguments' names are dashes."""
        assert self._process.stdin is not None
        dashed = {key.replace("_", "-"): value for key, value in arguments.items()}
        line = json.dumps({"execute": verb, "arguments": dashed})
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        while True:
            answer = self._read()
            if "event" in answer:
                self._events.append(answer)
            elif "error" in answer:
                raise JobFailed(f"{verb}: {answer['error']['desc']}")
            else:
                return answer["return"]

    def add(self, file: str, cache: str, backing: str | None = None) -> str:
        """Opens a qcow2 image; returns its node's name, which is the file's."""
        node: dict[str, Any] = {"driver": "file", "filename": str(self._folder / file)}
        self.command(
            "blockdev-add",
            driver="qcow2",
            node_name=file,
            file=node | {"cache": CACHES[cache]},
            cache=CACHES[cache],
            backing=backing,
        )
        return file

    def close(self, node: str) -> None:
        """Closes an image that nothing uses any more."""
        self.command("blockdev-del", node_name=node)

    def export(self, node: str) -> Writer:
        """A writer to this node, or to what takes its place."""
        self.command(
            "block-export-add", type="nbd", id="disk", node_name=node, name="disk", writable=True
        )
        return Writer(self._address)

    def start(self, verb: str, /, **arguments: Any) -> None:
        """Starts the block job that this command starts, slow."""
        self.command(verb, job_id="job", speed=SLOW, **arguments)

    def step(self) -> None:
        """Lets the job copy one more piece: with each higher speed QEMU wakes it."""
        self._speed += 1
        self.command("block-job-set-speed", device="job", speed=self._speed)

    def hurry(self) -> None:
        """Lets the job run at full speed."""
        self.command("block-job-set-speed", device="job", speed=0)

    def pause(self) -> None:
        """Returns when the job stands."""
        self.command("job-pause", id="job")
        self.wait("paused", "standby")

    def resume(self) -> None:
        self.command("job-resume", id="job")

    def complete(self) -> None:
        """Has a job that is ready hand the disk over."""
        self.command("job-complete", id="job")

    def wait(self, *states: str) -> None:
        """Returns when the job has one of these states.  Raises JobFailed if it ended in error."""
        while True:
            for job in self.command("query-jobs"):
                if error := job.get("error"):
                    raise JobFailed(f"{job['type']}: {error}")
                if job["status"] in states:
                    return
            if self._has_ended(states):
                return
            self._wait_event()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _has_ended(self, states: tuple[str, ...]) -> bool:
        """A job that is over is no longer among those of query-jobs."""
        for event in self._events:
            data = event["data"]
            if event["event"] == "BLOCK_JOB_COMPLETED" and "error" in data:
                raise JobFailed(f"{data['type']}: {data['error']}")
            if event["event"] == "JOB_STATUS_CHANGE" and data["status"] == "null":
                if "null" in states:
                    return True
                raise JobFailed(f"the job ended, and was never {' or '.join(states)}")
        return False

    def _wait_event(self) -> None:
        """Returns when there is news of the job."""
        answer = self._read()
        assert "event" in answer
        self._events.append(answer)

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = b""
        while not line.startswith(b"{"):  # what makes an image prints a line, too
            line = self._process.stdout.readline()
            if not line:
                raise JobFailed(f"qemu-storage-daemon ended with status {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Writer:
    """One qemu-io on the daemon's export."""

    def __init__(self, address: str) -> None:
        options = f"driver=nbd,server.type=unix,server.path={address},server.abstract=on"
        self._process = subprocess.Popen(
            ["qemu-io", "-t", "writeback", "--image-opts", f"{options},export=disk"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        )
        self._answer()

    def write(self, place: int, length: int, pattern: int) -> None:
        """Returns when it is written; it is not durable before `flush`."""
        said = self._command(f"write -P {pattern} {place} {length}")
        if "wrote" not in said:
            raise JobFailed(f"write: {said}")

    def flush(self) -> None:
        if "failed" in (said := self._command("flush")):
            raise JobFailed(f"flush: {said}")

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def _command(self, words: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(words.encode() + b"\n")
        return self._answer()

    def _answer(self) -> str:
        """All that it says up to its next prompt."""
        assert self._process.stdout is not None
        text = b""
        while not text.endswith(PROMPT):
            data = self._process.stdout.read(4096)
            if not data:
                raise JobFailed(f"qemu-io ended: {text.decode(errors='replace')}")
            text += data
        return text.removesuffix(PROMPT).decode(errors="replace").strip()
