# SPDX-License-Identifier: Apache-2.0
"""What a program says, received and kept.

From User-Mode Linux come packets that have the host's clock of the moment in which they were
written (guests/uml/stamp.c).  From a guest of QEMU's comes a stream on a virtio-serial port, and
an instant is that of the receipt.
"""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from powercut.channel.lines import header, pack
from powercut.closing import Closing
from powercut.model.binding import Binding
from powercut.model.errors import DeadlineExceeded, HostError
from powercut.model.operations import Packet

END_OF_LINES: Final = b"\0\n"
"""What the guest's agent says on that port after a program's last line (guests/agent/child.c)."""

_PACKET_MAX: Final = 1 << 20
_KILL_S: Final = 20.0
_LINES_MAX: Final = 256 << 20
_CHECK_MAX: Final = 64 << 20


def guest_port(path: Path) -> socket.socket:
    """A connection to the port for lines of a machine that runs.  Raises HostError."""
    port = socket.socket(socket.AF_UNIX)
    try:
        port.connect(str(path))
    except OSError as error:
        port.close()
        raise HostError(
            f"cannot connect to the guest's port for lines: {error.strerror}"
        ) from error
    return port


class LineReceiver:
    """Receives a program's packets in a thread of its own, and keeps them in a file."""

    def __init__(
        self,
        file: Path,
        binding: Binding,
        on_packet: Callable[[Packet], None],
        port: socket.socket | None = None,
    ) -> None:
        """`port` is a stream from a guest; without it `theirs` is the end for stamped packets."""
        self._stream = port is not None
        self.theirs: socket.socket | None = None
        if port is not None:
            self._ours = port
        else:
            self._ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._rest = b""
        self._file = file.open("xb")
        self._file.write(header(binding))
        self._on_packet = on_packet
        self._size = 0
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._receive, name="lines", daemon=True)
        self._thread.start()

    def _receive(self) -> None:
        try:
            while packet := self._line() if self._stream else self._packet():
                self._size += self._file.write(pack(packet))
                if self._size > _LINES_MAX:
                    raise OSError(errno.EFBIG, f"more than {_LINES_MAX >> 20} MiB of lines")
                self._on_packet(packet)
        except Exception as error:  # what is not read from here on is missing, whatever it was
            self._failure = error

    def _packet(self) -> Packet | None:
        """The next packet, stamped where it was written; None at the end."""
        raw, _, flags, _ = self._ours.recvmsg(_PACKET_MAX)
        if flags & socket.MSG_TRUNC:
            raise OSError(errno.EMSGSIZE, f"a packet of more than {_PACKET_MAX} bytes")
        return Packet(int.from_bytes(raw[:8], "little"), raw[8:]) if raw else None

    def _line(self) -> Packet | None:
        """The next whole lines of a guest, with the instant of their receipt; None at the end.

        What it did not finish it has not said.
        """
        while data := self._ours.recv(_PACKET_MAX):
            instant = time.monotonic_ns()
            whole, found, self._rest = (self._rest + data).rpartition(b"\n")
            said = (whole + found).replace(END_OF_LINES, b"")
            if said:
                return Packet(instant, said)
        return None

    def close(self) -> None:
        """Waits for what is still on its way, once nobody holds the other end.

        Raises HostError if a packet could not be kept.
        """
        if self.theirs is not None:
            self.theirs.close()
        self._thread.join(_KILL_S)
        self._ours.close()
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            self._failure = self._failure or error
        if self._thread.is_alive() or self._failure is not None:
            why = self._failure or "the guest's processes did not end"
            raise HostError(f"the program's lines could not be kept: {why}")


class CheckLines(Closing):
    """What one check in a guest says, up to the end that its agent tells."""

    def __init__(self, port: socket.socket) -> None:
        self._port = port
        self._said = b""
        self._ended = False
        self._thread = threading.Thread(target=self._receive, name="check lines", daemon=True)
        self._thread.start()

    def _receive(self) -> None:
        try:
            while len(self._said) < _CHECK_MAX and (data := self._port.recv(_PACKET_MAX)):
                self._said += data
                if self._said.endswith(END_OF_LINES):
                    self._ended = True
                    return
        except OSError:
            return  # the guest is gone, and whoever waits hears that there was no end

    def wait_end(self, timeout_s: float) -> bytes:
        """All of it.  Raises HostError if the end did not come, DeadlineExceeded."""
        self._thread.join(max(timeout_s, 0.0))
        if self._thread.is_alive():
            raise DeadlineExceeded("the end of what the check said did not come in time")
        if not self._ended:
            raise HostError("what the check said has no end")
        return self._said.removesuffix(END_OF_LINES)

    def close(self) -> None:
        """Hangs up; idempotent."""
        self._port.close()
