# SPDX-License-Identifier: Apache-2.0
"""Fake machines whose guest has the program."""

from __future__ import annotations

import contextlib

from fake_machine import FakeBackend, FakeMachine

from powercut.channel.wire import MessageType
from tally.workload import SECTOR, sector


class TallyMachine(FakeMachine):
    def _work(self, command, words):
        told = dict(word.split("=", 1) for word in words)
        number = 0
        with contextlib.suppress(OSError):
            self._say(MessageType.READY)
            while not self._stopped.is_set() and number < 20:
                number += 1
                self._say(MessageType.ATTEMPT, lsn=number)
                mark = sector(number, bytes.fromhex(told["run"]))
                self._disk.write((number - 1) * SECTOR, mark)
                if told["flushes"] == "1":
                    self._disk.flush()
                self._say(MessageType.ACK, lsn=number)


class TallyBackend(FakeBackend):
    def __init__(self, cache=None):
        super().__init__(cache)
        self.machine = TallyMachine
