# SPDX-License-Identifier: Apache-2.0
"""One suite over every backend of the channel port: a guest that behaves, and every way not to."""

from __future__ import annotations

import contextlib
import errno
import socket
import threading
import time

import pytest

from powercut.channel import wire
from powercut.channel.guest_channel import GuestChannel
from powercut.channel.history_file import read_history
from powercut.channel.port import CommandResult, GuestError, GuestFailed
from powercut.channel.wire import Decoder, Message, MessageType
from powercut.model.errors import DamagedRecording, DeadlineExceeded
from powercut.model.failure import GuestFault
from powercut.model.history import Handover
from powercut.model.observation import Extent
from powercut.wal.layout import SlotState

SOON_S = 120  # long enough for a loaded host; nothing here takes that long unless it fails
NEVER_S = 3600  # a test that waits this long has failed: the outcome must be seen at once
BRIEF_S = 0.05  # for waits that must run out


class Guest:
    """The other end: speaks the wire, has no mind of its own."""

    def __init__(self, channel: GuestChannel) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(SOON_S)
        try:
            self.socket.connect(str(channel.address))
        except BaseException:
            self.socket.close()
            raise
        self._decoder = Decoder()
        self._commands: list[Message] = []

    def say(self, kind: MessageType, **fields) -> None:
        self.socket.sendall(wire.encode(Message(kind, **fields)))

    def command(self) -> tuple[int, list[str]]:
        while not self._commands:
            data = self.socket.recv(65536)
            assert data, "the channel hung up"
            self._commands += self._decoder.feed(data)
        message = self._commands.pop(0)
        assert message.type is MessageType.COMMAND
        return message.lsn, message.payload.decode().split("\0")[:-1]

    def answer(self, status: int = 0, *messages: tuple[MessageType, dict]) -> list[str]:
        command, argv = self.command()
        for kind, fields in messages:
            self.say(kind, **fields)
        self.say(MessageType.DONE, lsn=command, value=status)
        return argv

    def hello(self) -> None:
        self.answer(0, (MessageType.HELLO, {"payload": b"agent=1\nrelease=6.1-x\n"}))

    def close(self) -> None:
        self.socket.close()


@contextlib.contextmanager
def behind(function, *args):
    """Runs the guest's part in a thread; its failure is the test's."""
    failures: list[BaseException] = []

    def body() -> None:
        try:
            function(*args)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield
    finally:
        thread.join(SOON_S)
    assert not thread.is_alive()
    if failures:
        raise failures[0]


@pytest.fixture
def channel(tmp_path):
    with GuestChannel.on_unix(tmp_path / "ctl", history_file=tmp_path / "history.bin") as made:
        yield made
    assert not (tmp_path / "ctl").exists()
    assert not [thread for thread in threading.enumerate() if thread.name == "channel"]


@pytest.fixture
def guest(channel):
    peer = Guest(channel)
    yield peer
    peer.close()


@pytest.fixture
def started(channel, guest):
    """A channel on which `exec wal` runs as command 2."""
    with behind(guest.hello):
        channel.wait_hello(timeout_s=SOON_S)
    channel.start("exec", "/bin/wal")
    assert guest.command() == (2, ["exec", "/bin/wal"])
    return channel


def test_hello_is_asked_for_so_that_a_restored_guest_answers_too(channel, guest):
    with behind(guest.hello):
        hello = channel.wait_hello(timeout_s=SOON_S)
    assert hello == {"agent": "1", "release": "6.1-x"}


def test_a_hello_said_at_boot_counts_even_if_the_agent_does_not_repeat_it(channel, guest):
    guest.say(MessageType.HELLO, payload=b"agent=1\n")
    with behind(guest.answer):
        assert channel.wait_hello(timeout_s=SOON_S) == {"agent": "1"}


def test_nobody_connects(channel):
    with pytest.raises(DeadlineExceeded, match="was not opened in time"):
        channel.wait_hello(timeout_s=BRIEF_S)


def test_a_silent_guest(channel, guest):
    with pytest.raises(DeadlineExceeded, match="did not finish 'hello' within"):
        channel.wait_hello(timeout_s=BRIEF_S)


def test_a_command_returns_everything_that_was_said_before_its_end(channel, guest):
    latency = wire.LATENCY.pack(1, 9, 9, *[0] * 8, 1, *[0] * 487)
    replies = [
        (MessageType.FACT, {"payload": b"write_cache=write back"}),
        (MessageType.FACT, {"payload": b"cmdline=a=b"}),
        (MessageType.TEXT, {"payload": b"found it"}),
        (MessageType.EXTENT, {"payload": wire.EXTENT.pack(0, 5, 1, 1, 0)}),
        (MessageType.EXTENT, {"payload": wire.EXTENT.pack(5, 1, 0, 2, 0)}),
        (MessageType.LATENCY, {"payload": latency}),
        (MessageType.ERROR, {"value": errno.EIO, "payload": b"fdatasync /mnt/log"}),
        (MessageType.ERROR, {"lsn": 5, "value": errno.EINTR, "payload": b"killed"}),
    ]
    with behind(guest.answer, 3, *replies):
        result = channel.run("exec", "/bin/wal", "read", "", timeout_s=SOON_S)
    assert result == CommandResult(
        3,
        "fdatasync /mnt/log: Input/output error (EIO); killed: Interrupted system call (EINTR)",
        {"write_cache": "write back", "cmdline": "a=b"},
        (Extent(0, 5, SlotState.INTACT, 1), Extent(5, 1, SlotState.ABSENT)),
        ("found it",),
        wire.decode_latency(latency),
        (
            GuestError(GuestFault.CALL, errno.EIO, "fdatasync /mnt/log: Input/output error (EIO)"),
            GuestError(GuestFault.SIGNAL, errno.EINTR, "killed: Interrupted system call (EINTR)"),
        ),
    )
    assert channel.latency == result.latency


def test_results_of_one_command_do_not_leak_into_the_next(channel, guest):
    with behind(guest.answer, 1, (MessageType.ERROR, {"value": 2, "payload": b"open /x"})):
        assert channel.run("stat", "vda", timeout_s=SOON_S).error.endswith("(ENOENT)")
    with behind(guest.answer):
        assert channel.run("sync", timeout_s=SOON_S) == CommandResult(0, "", {}, (), (), None)


def test_arguments_arrive_as_they_were_given(channel, guest):
    with behind(lambda: channel.run("write", "/sys/x", "", "two words", timeout_s=SOON_S)):
        assert guest.answer() == ["write", "/sys/x", "", "two words"]


def test_claims_become_history_with_the_instant_of_receipt(started, guest):
    before = time.monotonic_ns()
    guest.say(MessageType.READY)
    for lsn in (1, 2, 3):
        guest.say(MessageType.ATTEMPT, lsn=lsn, guest_ns=100 * lsn)
        guest.say(MessageType.ACK, lsn=lsn, guest_ns=100 * lsn + 50)
    guest.say(MessageType.ATTEMPT, lsn=4, guest_ns=400)
    started.wait_ready(timeout_s=SOON_S)
    assert started.wait_acks(3, timeout_s=SOON_S)
    assert started.acked == 3
    guest.close()
    history = started.drain(timeout_s=SOON_S)
    after = time.monotonic_ns()
    assert history.attempt_lsn.tolist() == [1, 2, 3, 4]
    assert history.ack_lsn.tolist() == [1, 2, 3]
    assert history.attempt_guest_ns.tolist() == [100, 200, 300, 400]
    assert history.ack_guest_ns.tolist() == [150, 250, 350]
    stamps = [*history.attempt_ns, *history.ack_ns]
    assert all(before <= stamp <= after for stamp in stamps)
    assert history.ack_ns.tolist() == sorted(history.ack_ns)
    assert (history.attempted, history.acked, history.error) == (4, 3, "")
    assert history.facts == {"agent": "1", "release": "6.1-x"}


def test_the_file_alone_gives_the_same_history(started, guest, tmp_path):
    guest.say(MessageType.READY)
    for lsn in range(1, 501):
        guest.say(MessageType.ATTEMPT, lsn=lsn, guest_ns=lsn)
        guest.say(MessageType.ACK, lsn=lsn, guest_ns=lsn)
    guest.say(MessageType.ERROR, value=errno.ENOSPC, payload=b"pwrite")
    guest.socket.sendall(wire.encode(Message(MessageType.ACK, lsn=501))[:-1])
    guest.close()
    live = started.drain(timeout_s=SOON_S)
    read = read_history(tmp_path / "history.bin")
    assert (read.complete, read.unfinished_bytes) == (True, 39)
    assert (live.acked, live.error) == (500, "pwrite: No space left on device (ENOSPC)")
    assert read.history.acked == 500
    for name in ("attempt_lsn", "attempt_ns", "ack_lsn", "ack_ns", "attempt_guest_ns"):
        assert getattr(read.history, name).tolist() == getattr(live, name).tolist()
    assert (read.history.error, read.history.facts) == (live.error, live.facts)


def test_wait_acks_says_false_when_time_is_over(started, guest):
    guest.say(MessageType.ACK, lsn=9)
    assert started.wait_acks(9, timeout_s=SOON_S)
    assert not started.wait_acks(10, timeout_s=BRIEF_S)


def test_an_early_end_in_order_ends_the_wait_at_once(started, guest):
    guest.say(MessageType.READY)
    guest.say(MessageType.ACK, lsn=9)
    guest.say(MessageType.DONE, lsn=2)
    assert not started.wait_acks(10, timeout_s=NEVER_S)
    assert started.wait_acks(9, timeout_s=NEVER_S)
    started.wait_ready(timeout_s=NEVER_S)
    assert started.wait_done(timeout_s=NEVER_S).status == 0


def test_a_failed_workload_ends_the_wait_at_once(started, guest):
    guest.say(MessageType.READY)
    guest.say(MessageType.ERROR, value=errno.EIO, payload=b"fdatasync")
    with pytest.raises(GuestFailed, match=r"fdatasync: Input/output error \(EIO\)"):
        started.wait_acks(10, timeout_s=NEVER_S)
    guest.say(MessageType.DONE, lsn=2, value=1)
    assert started.wait_done(timeout_s=SOON_S).status == 1
    with pytest.raises(GuestFailed, match="EIO"):
        started.wait_acks(10, timeout_s=NEVER_S)
    guest.close()
    assert started.drain(timeout_s=SOON_S).error == "fdatasync: Input/output error (EIO)"


def test_a_workload_that_ends_with_a_status_and_no_words(started, guest):
    guest.say(MessageType.DONE, lsn=2, value=139)
    with pytest.raises(GuestFailed, match="ended with status 139"):
        started.wait_acks(1, timeout_s=NEVER_S)
    with pytest.raises(GuestFailed, match="ended with status 139"):
        started.wait_ready(timeout_s=NEVER_S)


def test_a_workload_that_never_was_ready(started, guest):
    with pytest.raises(DeadlineExceeded, match=r"not ready within 0\.05 s"):
        started.wait_ready(timeout_s=BRIEF_S)
    guest.say(MessageType.DONE, lsn=2)
    with pytest.raises(GuestFailed, match="ended before it was ready"):
        started.wait_ready(timeout_s=NEVER_S)


@pytest.mark.parametrize("wait", ["wait_ready", "wait_acks", "wait_done", "run"])
def test_a_lost_connection_ends_every_wait_at_once(started, guest, wait):
    guest.close()
    with pytest.raises(GuestFailed, match=r"connection to the guest ended|cannot send"):
        {
            "wait_ready": lambda: started.wait_ready(timeout_s=NEVER_S),
            "wait_acks": lambda: started.wait_acks(1, timeout_s=NEVER_S),
            "wait_done": lambda: started.wait_done(timeout_s=NEVER_S),
            "run": lambda: started.run("sync", timeout_s=NEVER_S),
        }[wait]()


def test_a_second_workload_is_refused_while_the_first_runs(started):
    with pytest.raises(GuestFailed, match="exec /bin/wal has not ended"):
        started.start("exec", "/bin/wal")


@pytest.mark.parametrize("cut", [1, 39, 40, 60])
def test_an_unfinished_last_message_is_dropped_and_all_else_counts(started, guest, cut):
    last = wire.encode(Message(MessageType.TEXT, payload=b"x" * 30))
    guest.say(MessageType.ACK, lsn=7)
    guest.socket.sendall(last[:cut])
    guest.close()
    assert started.drain(timeout_s=SOON_S).acked == 7


def test_a_reset_with_unread_commands_loses_nothing(started, guest):
    for lsn in range(1, 2001):
        guest.say(MessageType.ACK, lsn=lsn)
    with pytest.raises(DeadlineExceeded):
        started.run("sync", timeout_s=BRIEF_S)  # never read: closing now resets the connection
    guest.close()
    assert started.drain(timeout_s=SOON_S).ack_lsn.tolist() == list(range(1, 2001))


def test_damage_in_the_middle_is_told_to_every_waiter_and_at_the_end(started, guest, tmp_path):
    damaged = bytearray(wire.encode(Message(MessageType.ACK, lsn=2)))
    damaged[20] ^= 1
    guest.say(MessageType.ACK, lsn=1)
    guest.socket.sendall(damaged)
    with pytest.raises(DamagedRecording, match="checksum"):
        started.wait_acks(3, timeout_s=NEVER_S)
    guest.say(MessageType.ACK, lsn=3)
    guest.close()
    with pytest.raises(DamagedRecording, match="checksum"):
        started.drain(timeout_s=SOON_S)
    with pytest.raises(DamagedRecording, match="checksum"):
        read_history(tmp_path / "history.bin")


def test_drain_of_an_open_channel_has_a_deadline(started):
    with pytest.raises(DeadlineExceeded, match="still open"):
        started.drain(timeout_s=BRIEF_S)


def test_drain_without_any_guest_is_an_empty_history(channel, tmp_path):
    history = channel.drain(timeout_s=SOON_S)
    assert (history.acked, history.attempted, len(history.ack_ns)) == (0, 0, 0)
    assert not read_history(tmp_path / "history.bin").complete


def test_hanging_up_ourselves_is_not_the_end_of_the_guests_side(started, guest, tmp_path):
    guest.say(MessageType.ACK, lsn=1)
    assert started.wait_acks(1, timeout_s=SOON_S)
    started.close()
    read = read_history(tmp_path / "history.bin")
    assert (read.history.acked, read.complete) == (1, False)


def test_drain_waits_for_what_is_on_its_way(started, guest):
    def finish() -> None:
        for lsn in range(1, 100):
            guest.say(MessageType.ACK, lsn=lsn)
            time.sleep(0.0005)
        guest.close()

    with behind(finish):
        assert started.drain(timeout_s=SOON_S).acked == 99


def test_a_connection_that_never_spoke_may_have_a_successor(channel):
    """A machine that cannot be restored from its template is booted on the same channel."""
    first = Guest(channel)
    first.close()
    second = Guest(channel)
    with behind(second.hello):
        assert channel.wait_hello(timeout_s=SOON_S)["agent"] == "1"
    channel.start("exec", "/bin/wal")
    second.say(MessageType.ACK, lsn=5)
    assert channel.wait_acks(5, timeout_s=SOON_S)
    second.close()
    assert channel.drain(timeout_s=SOON_S).acked == 5


def test_who_asked_a_machine_that_went_asks_its_successor(channel):
    first = Guest(channel)
    successors = []

    def replaced() -> None:
        assert first.socket.recv(1)  # a part of the question
        first.close()
        successors.append(Guest(channel))
        successors[0].hello()

    with behind(replaced):
        assert channel.wait_hello(timeout_s=SOON_S)["agent"] == "1"
    successors[0].close()


def test_a_connection_that_never_spoke_and_has_no_successor_is_lost(channel, tmp_path):
    Guest(channel).close()
    with pytest.raises(GuestFailed, match="connection to the guest ended"):
        channel.wait_hello(timeout_s=NEVER_S)
    assert channel.drain(timeout_s=SOON_S).acked == 0
    assert read_history(tmp_path / "history.bin").complete


def test_a_guest_that_spoke_has_no_successor(started, guest):
    guest.say(MessageType.ACK, lsn=1)
    guest.close()
    assert started.drain(timeout_s=SOON_S).acked == 1
    with pytest.raises(ConnectionRefusedError):
        Guest(started)


def test_a_guest_that_moves_goes_on_where_it_broke_off(started, guest, tmp_path):
    """In the midst of a message: the first hypervisor had sent a part of it."""
    ack = wire.encode(Message(MessageType.ACK, lsn=2, guest_ns=7))
    guest.say(MessageType.ACK, lsn=1, guest_ns=5)
    guest.socket.sendall(ack[:10])
    started.expect_handover()
    other = Guest(started)
    other.socket.sendall(ack[10:])
    guest.close()
    started.hand_over(1234, timeout_s=SOON_S)
    assert started.wait_acks(2, timeout_s=SOON_S)
    with behind(other.answer):
        assert started.run("facts", "vda", timeout_s=SOON_S).status == 0
    other.close()
    heard = started.drain(timeout_s=SOON_S)
    assert heard.ack_lsn.tolist() == [1, 2]
    assert heard.handovers == (Handover(0, 1, 0, 1234),)
    read = read_history(tmp_path / "history.bin")
    assert (read.complete, read.unfinished_bytes) == (True, 0)
    assert read.history.handovers == heard.handovers
    assert read.history.ack_lsn.tolist() == [1, 2]


def test_a_cut_while_the_guest_moves_loses_no_word_of_either_side(started, guest, tmp_path):
    guest.say(MessageType.ACK, lsn=1)
    started.expect_handover()
    other = Guest(started)
    other.say(MessageType.ACK, lsn=2)
    guest.close()
    other.close()
    heard = started.drain(timeout_s=SOON_S)
    assert heard.ack_lsn.tolist() == [1, 2]
    assert [(one.acks, one.stopped_ns > 0) for one in heard.handovers] == [(1, True)]
    assert read_history(tmp_path / "history.bin").complete


def test_a_guest_that_does_not_arrive_is_missed(started, guest):
    started.expect_handover()
    guest.close()
    with pytest.raises(DeadlineExceeded, match="was not heard in the hypervisor"):
        started.hand_over(1234, timeout_s=BRIEF_S)


def test_pings_go_on_after_a_move(started, guest):
    started.keep_time()
    started.expect_handover()
    other = Guest(started)
    guest.close()

    def answer_one() -> None:
        decoder, pings = Decoder(), []
        while not pings:
            pings += decoder.feed(other.socket.recv(65536))
        assert pings[0].type is MessageType.PING
        other.say(MessageType.PONG, lsn=pings[0].lsn, value=pings[0].value)

    with behind(answer_one):
        started.hand_over(1234, timeout_s=SOON_S)
    other.close()


def test_a_restarted_guest_is_heard_anew_and_what_it_was_about_to_say_is_never_said(
    started, guest, tmp_path
):
    ack = wire.encode(Message(MessageType.ACK, lsn=2, guest_ns=7))
    guest.say(MessageType.ACK, lsn=1, guest_ns=5)
    guest.socket.sendall(ack[:10])
    started.expect_handover(restarts=True)
    other = Guest(started)
    other.say(MessageType.HELLO, payload=b"agent=1\n")
    guest.close()
    started.hand_over(1234, timeout_s=SOON_S)
    with behind(lambda: other.answer(0, (MessageType.HELLO, {"payload": b"agent=2\n"}))):
        assert started.wait_hello(timeout_s=SOON_S) == {"agent": "2"}
    with behind(other.answer):
        assert started.run("mount", timeout_s=SOON_S).status == 0
    started.start("exec", "/bin/wal", "write")
    assert other.command()[1][0] == "exec"
    other.say(MessageType.READY)
    started.wait_ready(timeout_s=SOON_S)
    other.say(MessageType.ATTEMPT, lsn=2, guest_ns=1, value=1)
    other.say(MessageType.ACK, lsn=2, guest_ns=3)
    assert started.wait_acks(2, timeout_s=SOON_S)
    other.close()
    heard = started.drain(timeout_s=SOON_S)
    read = read_history(tmp_path / "history.bin")
    assert (read.complete, read.unfinished_bytes) == (True, 0)
    for history in (heard, read.history):
        assert history.ack_guest_ns.tolist() == [5, 3]
        assert history.handovers == (Handover(0, 1, 0, 1234, restarted=True),)
        assert history.error == ""


def test_the_workload_of_a_restarted_guest_is_not_ready_because_it_was_before(started, guest):
    guest.say(MessageType.READY)
    started.wait_ready(timeout_s=SOON_S)
    started.expect_handover(restarts=True)
    with contextlib.closing(Guest(started)):
        guest.close()
        started.hand_over(1234, timeout_s=SOON_S)
        started.start("exec", "/bin/wal", "write")
        with pytest.raises(DeadlineExceeded, match="was not ready"):
            started.wait_ready(timeout_s=BRIEF_S)


@pytest.mark.parametrize(("lsn", "records", "again"), [(4, 2, True), (4, 1, False), (3, 1, True)])
def test_records_that_are_written_again_after_a_restart_are_told(
    started, guest, lsn, records, again
):
    guest.say(MessageType.ATTEMPT, lsn=5, value=5)
    guest.say(MessageType.ACK, lsn=3)
    assert started.wait_acks(3, timeout_s=SOON_S)
    started.expect_handover(restarts=True)
    other = Guest(started)
    guest.close()
    started.hand_over(1234, timeout_s=SOON_S)
    other.say(MessageType.ATTEMPT, lsn=lsn, value=records)
    other.close()
    assert ("writes record 3 again" in started.drain(timeout_s=SOON_S).error) == again
