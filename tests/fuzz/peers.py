# SPDX-License-Identifier: Apache-2.0
"""Readers of what others say: guests, programs, browsers."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import socket
from typing import Any

from shared import folder

from powercut.model.errors import PowercutError


def _said(data: bytes, stack: contextlib.ExitStack) -> socket.socket:
    """A connection on which `data` was said, and nothing else is."""
    ours, theirs = (stack.enter_context(one) for one in socket.socketpair())
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2 * len(data) + 4096)
    theirs.sendall(data)
    theirs.shutdown(socket.SHUT_WR)
    return ours


class _Request:
    """The connection of a browser, whose answer leads nowhere."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def makefile(self, *_: object) -> io.BytesIO:
        return self._data

    def sendall(self, data: bytes) -> None:
        """Into nothing."""


def _messages(data: bytes) -> bytes:
    """`data` as messages of the channel with right checksums and magics."""
    from powercut.channel import wire

    out, at = bytearray(), 0
    while at + 32 <= len(data):
        kind, length = data[at] % 36, int.from_bytes(data[at + 1 : at + 3], "little") % 512
        numbers = (
            int.from_bytes(data[at + 8 + 8 * n : at + 16 + 8 * n], "little") for n in range(3)
        )
        payload = data[at + 32 : at + 32 + length]
        fields = (kind, data[at + 3], len(payload), 0, *numbers)
        header = bytearray(wire.HEADER.pack(wire.MAGIC, *fields))
        header[12:16] = wire.checksum(bytes(header), payload).to_bytes(4, "little")
        out += header + payload
        at += 32 + length
    return bytes(out)


def guest_lines(data: bytes) -> object:
    """Lines of a guest's program: in messages of its agent's, or as they are."""
    from powercut.channel.line_channel import GuestSource
    from powercut.channel.line_sources import StreamSource

    found: list[object] = []
    with contextlib.ExitStack() as stack:
        for source in (
            GuestSource(_said(_messages(data), stack)),
            StreamSource(_said(data, stack)),
        ):
            with contextlib.closing(source), contextlib.suppress(OSError):
                while packet := source.next():
                    found.append(packet)
    return found


def connections(data: bytes) -> object:
    """Those who connect to `listen`: one says what stands before each NUL."""
    from powercut_extras.elsewhere.first_to_speak import FirstToSpeak

    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_UNIX))
        listener.bind(f"\0powercut-fuzz-{os.getpid()}")
        listener.listen(64)
        first = stack.enter_context(contextlib.closing(FirstToSpeak(listener, "token")))
        for said in data.split(b"\0", 20)[:20]:
            one = stack.enter_context(socket.socket(socket.AF_UNIX))
            one.connect(listener.getsockname())
            one.sendall(said)
            one.shutdown(socket.SHUT_WR)
        first.refuse_others()
        chosen = first.wait()
        if chosen is not None:
            stack.enter_context(chosen)
        return chosen is not None


@functools.cache
def _server() -> Any:
    from powercut_extras.pages.browse import server

    results = folder()
    return server(results.__enter__(), 0, "token"), results


def browser(data: bytes) -> object:
    """A request to `serve`, and one that has its token."""
    listening, _ = _server()
    port = listening.server_port
    line, _, rest = data.partition(b"\n")
    known = b"Host: 127.0.0.1:%d\r\nCookie: powercut-%d=token\r\n" % (port, port)
    for request in (data, line + b"\r\n" + known + rest + b"\r\n\r\n"):
        listening.RequestHandlerClass(_Request(request), ("127.0.0.1", 1), listening)
    return None


def uml_answer(data: bytes) -> object:
    """What PID 1 of a User-Mode Linux leaves in the memory that it shares with the controller."""
    from powercut.recover.port import reads_in
    from powercut.recover.uml.answer import Trouble, observe
    from powercut.recover.uml.engine import log_bytes, places_in
    from powercut.recover.uml.share import Share, Verb

    share = Share(1 << 16)
    try:
        share.ask(Verb.RECOVER)
        os.pwrite(share.fd, data[: (1 << 16) + 4072], 24)
        os.pwrite(share.fd, (1).to_bytes(8, "little"), 16)  # the answer to the first question
        answer = share.answer()
        if answer is None:
            return None
        for program, tree in ((False, False), (True, False), (False, True)):
            with contextlib.suppress(Trouble):
                observe(share, answer, "", program=program, tree=tree)
        for read in (lambda said: places_in(memoryview(said)), reads_in, log_bytes):
            with contextlib.suppress(PowercutError):
                read(share.bytes(answer.answer))
        return answer
    finally:
        share.close()


def check_answer(data: bytes) -> object:
    """What comes out of the sandbox in which a program's check runs."""
    from powercut.recover.native.check import checked_of

    return checked_of(data)


TARGETS = (
    guest_lines, connections, browser, uml_answer, check_answer,
)  # fmt: skip
