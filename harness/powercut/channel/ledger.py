# SPDX-License-Identifier: Apache-2.0
"""What messages add up to: claims in order, and results of commands.

Pure: the live channel and `read_history` feed the same ledger, so a history that is
rebuilt from its file is the one that was judged.

The agent executes one command after the other.  So whatever arrived since the last
DONE belongs to the command that the next DONE names.
"""

from __future__ import annotations

import errno
import os
from array import array
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from powercut.channel.port import CommandResult, GuestError
from powercut.channel.wire import Message, MessageType, decode_extents, decode_latency
from powercut.model.errors import DamagedRecording
from powercut.model.failure import GuestFault
from powercut.model.history import RECORDS_MAX, Handover, History, LatencyHistogram, RoundTrips
from powercut.model.observation import Extent

_INT64_MAX = 2**63 - 1
_LISTED_MAX = 1 << 22


@dataclass
class Collection:
    """What a command that has not ended yet has said so far."""

    ready: bool = False
    claimed: bool = False
    errors: list[str] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    extents: list[Extent] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    latency: LatencyHistogram | None = None
    failures: list[GuestError] = field(default_factory=list)
    listed: bytearray = field(default_factory=bytearray)

    def add(self, message: Message) -> None:
        """What it has found or printed.  Raises DamagedRecording if there is no end of it."""
        if message.type is MessageType.EXTENT:
            self.extents += decode_extents(message.payload)
        elif message.type is MessageType.TEXT:
            self.texts.append(message.text)
        else:
            self.listed += message.payload
        if len(self.listed) > _LISTED_MAX:
            raise DamagedRecording(f"a list of files of more than {_LISTED_MAX} bytes")

    def result(self, status: int) -> CommandResult:
        """The result, once the command has ended with `status`."""
        return CommandResult(
            status,
            "; ".join(self.errors),
            self.facts,
            tuple(self.extents),
            tuple(self.texts),
            self.latency,
            tuple(self.failures),
            bytes(self.listed),
        )


class Ledger:
    """Takes messages with the instant of their receipt, in order."""

    def __init__(self) -> None:
        self.hello: dict[str, str] | None = None
        self.facts: dict[str, str] = {}
        self.acked = 0
        self.latency: LatencyHistogram | None = None
        self.current = Collection()
        self.results: dict[int, CommandResult] = {}
        self.was_ready: set[int] = set()
        self.marks: list[tuple[int, str]] = []
        self._attempts = _Claims()
        self._acks = _Claims()
        self.pongs = 0
        self._pongs = _Pongs()
        self._errors: list[str] = []
        self._handovers: list[Handover] = []
        self._kept = 0  # acknowledged before the guest was restarted

    def hand_over(self, stopped_ns: int, *, restarted: bool = False) -> None:
        """Another hypervisor continues the guest, which stood still at `stopped_ns` in the one
        from which everything so far has come; or the guest was `restarted`, and what it was doing
        never ends."""
        counts = len(self._attempts), len(self._acks), self.pongs
        self._handovers.append(Handover(*counts, stopped_ns, restarted))
        if not restarted:
            return
        if _workload(self.current):
            self._errors += self.current.errors
        self.current, self.hello, self._kept = Collection(), None, self.acked

    @property
    def handovers(self) -> int:
        """How many there were."""
        return len(self._handovers)

    @property
    def restarted(self) -> bool:
        """Whether the last of them was a restart."""
        return bool(self._handovers) and self._handovers[-1].restarted

    @property
    def acks_before_handover(self) -> int:
        """Records that were acknowledged by way of the hypervisors before the present one."""
        return self._handovers[-1].acks if self._handovers else 0

    @property
    def pongs_since_handover(self) -> int:
        """Pings that were answered by way of the present hypervisor."""
        return self.pongs - (self._handovers[-1].round_trips if self._handovers else 0)

    def apply(self, message: Message, at_ns: int) -> None:
        """Adds a message received at `at_ns` (CLOCK_MONOTONIC).

        Raises DamagedRecording if it cannot mean anything.
        """
        current = self.current
        match message.type:
            case MessageType.ATTEMPT | MessageType.ACK:
                current.claimed = True
                self._claim(message, at_ns)
            case MessageType.HELLO:
                self.hello = dict(map(_pair, message.text.splitlines()))
            case MessageType.READY:
                current.ready = True
            case MessageType.DONE:
                self._done(message)
            case MessageType.ERROR:
                text = describe_error(message)
                current.errors.append(text)
                current.failures.append(GuestError(_fault(message), message.value, text))
            case MessageType.FACT:
                key, value = _pair(message.text)
                current.facts[key] = value
                self.facts[key] = value
            case MessageType.EXTENT | MessageType.TEXT | MessageType.READS:
                current.add(message)
            case MessageType.LATENCY:
                current.latency = self.latency = decode_latency(message.payload)
            case MessageType.MARK:
                self.marks.append((at_ns, message.text))
            case MessageType.PONG:
                self.pongs += 1
                self._pongs.add(message, at_ns)
            case MessageType.COMMAND | MessageType.PING | MessageType.LINES:
                raise DamagedRecording(
                    f"the guest sent a {message.type.name}, which no guest sends on this port"
                )

    def history(self) -> History:
        """The claims so far.  `error` holds what the workload, not the set-up, complained of."""
        errors = self._errors + (self.current.errors if _workload(self.current) else [])
        return History(
            *self._attempts.arrays(),
            *self._acks.arrays(),
            attempt_guest_ns=self._attempts.guest(),
            ack_guest_ns=self._acks.guest(),
            round_trips=self._pongs.round_trips(),
            error="; ".join(errors),
            facts=(self.hello or {}) | self.facts,
            handovers=tuple(self._handovers),
        )

    def _claim(self, message: Message, at_ns: int) -> None:
        if message.type is MessageType.ATTEMPT:
            self._attempts.add(message, at_ns)
            self._check_continues(message)
            return
        self._acks.add(message, at_ns)
        self.acked = max(self.acked, message.lsn)

    def _check_continues(self, message: Message) -> None:
        """A record that was acknowledged, and is written once more, would hide its loss."""
        first = message.lsn - max(message.value, 1) + 1
        if first <= self._kept:
            self._errors.append(
                f"after its restart it writes record {first} again, and records up to "
                f"{self._kept} were acknowledged before"
            )
            self._kept = 0

    def _done(self, message: Message) -> None:
        ended, self.current = self.current, Collection()
        if message.lsn in self.results:
            raise DamagedRecording(f"command {message.lsn} ended twice")
        if ended.ready:
            self.was_ready.add(message.lsn)
        if _workload(ended):
            self._errors += ended.errors
        self.results[message.lsn] = ended.result(message.value)


class _Claims:
    """Three growing columns."""

    def __init__(self) -> None:
        self._lsn = array("q")
        self._at_ns = array("q")
        self._guest_ns = array("q")

    def add(self, message: Message, at_ns: int) -> None:
        if message.lsn > RECORDS_MAX:
            raise DamagedRecording(
                f"{message.type.name} of record {message.lsn}; powercut keeps account of "
                f"{RECORDS_MAX} records at most"
            )
        if max(message.guest_ns, at_ns) > _INT64_MAX:
            raise DamagedRecording(f"{message.type.name} at an instant that is on no clock")
        self._lsn.append(message.lsn)
        self._at_ns.append(at_ns)
        self._guest_ns.append(message.guest_ns)

    def __len__(self) -> int:
        return len(self._lsn)

    def arrays(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return np.array(self._lsn, np.int64), np.array(self._at_ns, np.int64)

    def guest(self) -> npt.NDArray[np.int64]:
        return np.array(self._guest_ns, np.int64)


class _Pongs:
    """Three growing columns of another kind."""

    def __init__(self) -> None:
        self._sent_ns = array("q")
        self._guest_ns = array("q")
        self._received_ns = array("q")

    def add(self, message: Message, at_ns: int) -> None:
        if message.value > at_ns or message.guest_ns > _INT64_MAX:
            raise DamagedRecording("a PONG that was received before its PING was sent")
        self._sent_ns.append(message.value)
        self._guest_ns.append(message.guest_ns)
        self._received_ns.append(at_ns)

    def round_trips(self) -> RoundTrips:
        columns = (self._sent_ns, self._guest_ns, self._received_ns)
        return RoundTrips(*(np.array(column, np.int64) for column in columns))


def describe_error(message: Message) -> str:
    """An ERROR message for a person: the call, and what the errno means."""
    number = message.value
    name = errno.errorcode.get(number)
    if name is None:
        return f"{message.text} (errno {number})" if number else message.text
    return f"{message.text}: {os.strerror(number)} ({name})"


def _fault(message: Message) -> GuestFault:
    try:
        return GuestFault(message.lsn)
    except ValueError:
        raise DamagedRecording(f"an ERROR about {message.lsn}: no such thing can fail") from None


def _workload(collection: Collection) -> bool:
    return collection.ready or collection.claimed


def _pair(line: str) -> tuple[str, str]:
    key, _, value = line.partition("=")
    return key, value
