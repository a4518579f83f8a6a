# SPDX-License-Identifier: Apache-2.0
"""Asking an NBD server what it exports: real nbdkit, and servers that misbehave."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import pytest

from powercut.machine.nbd import NbdExport, examine
from powercut.model.errors import HostError

SOON_S = 120


@pytest.fixture
def directory():
    path = Path(tempfile.mkdtemp(prefix="pc-"))
    yield path
    shutil.rmtree(path)


@pytest.mark.parametrize(
    ("words", "offers"),
    [
        (["file", "IMAGE"], (True, True)),
        (["eval", "can_write=exit 0", "can_flush=exit 3", "get_size=echo 3M", "pread=:"], None),
    ],
)
def test_what_nbdkit_exports(directory, words, offers):
    if shutil.which("nbdkit") is None:
        pytest.skip("nbdkit is not installed: apt-get install nbdkit")
    image, path, ready = directory / "image", directory / "nbd", directory / "pid"
    image.touch()
    os.truncate(image, 3 << 20)
    words = [word.replace("IMAGE", str(image)) for word in words]
    server = subprocess.Popen(["nbdkit", "-f", "-P", str(ready), "-U", str(path), *words])
    try:
        deadline = time.monotonic() + SOON_S
        while not ready.exists():  # written once it listens
            assert time.monotonic() < deadline
            time.sleep(0.005)
        export = examine(path, timeout_s=SOON_S)
    finally:
        server.terminate()
        server.wait()
    assert export.size == 3 << 20
    assert (export.offers_flush, export.offers_fua) == (offers or (False, False))


def answer(directory: Path, data: bytes) -> Path:
    """A server that sends `data` to whoever connects, then hangs up."""
    path = directory / "nbd"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def serve() -> None:
        # A client that has seen enough hangs up with bytes unread.
        with contextlib.suppress(OSError), listener, listener.accept()[0] as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while client.recv(4096):
                pass

    threading.Thread(target=serve, daemon=True).start()
    return path


GREETING = struct.pack(">8s8sH", b"NBDMAGIC", b"IHAVEOPT", 3)


def reply(kind: int, data: bytes = b"", magic: int = 0x3E889045565A9) -> bytes:
    return struct.pack(">QIII", magic, 6, kind, len(data)) + data


EXPORT = reply(3, struct.pack(">HQH", 0, 4096, 0b1101))
ACK = reply(1)


def test_a_server_that_answers(directory):
    path = answer(directory, GREETING + EXPORT + ACK)
    assert examine(path, timeout_s=SOON_S) == NbdExport(4096, True, True)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "hung up"),
        (GREETING[:-1], "hung up"),
        (b"HTTP/1.0 400 Bad Request\r\n\r\n", "no fixed newstyle"),
        (GREETING + reply(0x80000001, b"never heard of it"), "never heard of it"),
        (GREETING + reply(1, magic=1), "malformed"),
        (GREETING + ACK, "does not say how large"),
        (GREETING + EXPORT, "hung up"),
    ],
)
def test_a_server_that_does_not(directory, data, words):
    path = answer(directory, data)
    with pytest.raises(HostError, match=words):
        examine(path, timeout_s=SOON_S)


def test_no_server_at_all(directory):
    with pytest.raises(HostError, match="No such file or directory") as caught:
        examine(directory / "nbd", timeout_s=SOON_S)
    assert "started before the machine" in caught.value.hint
