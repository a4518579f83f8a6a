# SPDX-License-Identifier: Apache-2.0
"""What claims add up to, whatever order they come in."""

import pytest

from powercut.channel.ledger import Ledger
from powercut.channel.wire import Message, MessageType
from powercut.model.errors import DamagedRecording
from powercut.model.failure import GuestFault


def test_an_ack_of_an_older_record_takes_nothing_back():
    """Streams acknowledge side by side: an ack may arrive behind one of a later record."""
    ledger = Ledger()
    for lsn in (5, 3):
        ledger.apply(Message(MessageType.ACK, lsn=lsn), 10 * lsn)
    assert ledger.acked == 5
    assert ledger.history().acked == 5


def test_attempts_and_acks_are_kept_apart():
    ledger = Ledger()
    ledger.apply(Message(MessageType.ATTEMPT, lsn=7), 1)
    ledger.apply(Message(MessageType.ACK, lsn=6), 2)
    history = ledger.history()
    assert (history.attempt_lsn.tolist(), history.ack_lsn.tolist()) == ([7], [6])
    assert (history.attempted, history.acked) == (7, 6)


def test_what_an_error_is_about_is_kept_and_must_be_known():
    ledger = Ledger()
    ledger.apply(Message(MessageType.ERROR, lsn=1, value=12, payload=b"mount"), 1)
    (failed,) = ledger.current.failures
    assert (failed.fault, failed.error) == (GuestFault.MOUNT, 12)
    with pytest.raises(DamagedRecording, match="no such thing can fail"):
        ledger.apply(Message(MessageType.ERROR, lsn=99, value=12, payload=b"mount"), 1)


def test_a_command_ends_once():
    ledger = Ledger()
    ledger.apply(Message(MessageType.DONE, lsn=4), 1)
    with pytest.raises(DamagedRecording, match="ended twice"):
        ledger.apply(Message(MessageType.DONE, lsn=4), 2)


@pytest.mark.parametrize("kind", [MessageType.COMMAND, MessageType.PING])
def test_only_the_controller_asks(kind):
    with pytest.raises(DamagedRecording, match="which no guest sends on this port"):
        Ledger().apply(Message(kind), 1)
