#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""beanstalkd -b FOLDER -f0: jobs by put, answered INSERTED."""

import atexit
import socket
import subprocess
import time

import adapter

SETTINGS = adapter.settings(fsync="0")


class Store:
    damaged = ()

    def __init__(self, folder: str) -> None:
        command = ["beanstalkd", "-l", "127.0.0.1", "-b", folder, "-s", "65536"]
        server = subprocess.Popen([*command, f"-f{SETTINGS['fsync']}"], stdout=subprocess.DEVNULL)
        atexit.register(server.kill)
        for _ in range(1000):
            try:
                self._stream = socket.create_connection(("127.0.0.1", 11300)).makefile("rwb")
                return
            except ConnectionRefusedError:
                time.sleep(0.01)
        raise TimeoutError("beanstalkd does not answer")

    def _ask(self, line: bytes, body: bytes = b"") -> bytes:
        self._stream.write(line + b"\r\n" + body)
        self._stream.flush()
        return self._stream.readline()

    def put(self, number: int, value: bytes) -> None:
        job = b"%d %s" % (number, value)
        if not self._ask(b"put 0 0 60 %d" % len(job), job + b"\r\n").startswith(b"INSERTED"):
            raise OSError("the job was not taken")

    def read(self) -> dict[int, bytes]:
        found = {}
        last = int(next(one.split()[1] for one in self._stats() if one.startswith(b"total-jobs")))
        for job in range(1, last + 10_000):
            answer = self._ask(b"peek %d" % job)
            if answer.startswith(b"FOUND"):
                text = self._stream.read(int(answer.split()[2]) + 2)[:-2]
                found[int(text.split()[0])] = text.partition(b" ")[2]
        return found

    def _stats(self) -> list[bytes]:
        return self._stream.read(int(self._ask(b"stats").split()[1]) + 2).splitlines()


adapter.main(Store)
