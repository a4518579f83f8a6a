# SPDX-License-Identifier: Apache-2.0
"""ssh by Fabric: keys, users, ports and jump hosts as ~/.ssh/config has them.

Fabric accepts whatever host key it is shown; here only hosts in known_hosts are (ssh(1)).  A
command's bytes go through a channel of paramiko's, since Fabric decodes them, and since its
timeouts do not hold on a link that is dead.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import shlex
import threading
import time
from collections.abc import Iterable
from typing import Any, Final

from powercut.closing import Closing
from powercut.model.errors import DeadlineExceeded, HostError, UsageError
from powercut.model.printable import words_of
from powercut.paths import expanded
from powercut_extras.elsewhere.remote import Done, NotLetIn, Unreachable, WrongKey

_INSTALL: Final = "install Fabric: pip install 'fabric>=3.2'"
_CHUNK: Final = 1 << 16
_PRINTED_MAX: Final = 4096
_KEEPALIVE_S: Final = 5
_BY_SIGNAL: Final = 255
_SAID_S: Final = 5.0  # between a command's last byte and its exit status


def fabric_module() -> Any:
    """Fabric.  Raises HostError if it is not installed."""
    try:
        module = importlib.import_module("fabric")
    except ImportError as error:
        raise HostError(f"ssh cannot be used: {error}", hint=_INSTALL) from None
    logging.getLogger("paramiko").addHandler(logging.NullHandler())  # errors are raised, too
    return module


class FabricRemote(Closing):
    """A connection to `[USER@]NAME[:PORT]`, or a name of ~/.ssh/config."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._connection: Any = None

    def connect(self, *, timeout_s: float) -> None:
        self.close()
        fabric, paramiko = fabric_module(), importlib.import_module("paramiko")
        errors = paramiko.ssh_exception
        options = dict.fromkeys(("banner_timeout", "auth_timeout", "channel_timeout"), timeout_s)
        try:
            self._connection = fabric.Connection(
                self._host, connect_timeout=timeout_s, connect_kwargs=options
            )
            _know_hosts(self._connection, paramiko)
            self._connection.open()
        except errors.BadHostKeyException as error:
            self._fail(
                WrongKey,
                f"{error.hostname} has another host key than known_hosts says",
                "if the machine was set up anew: ssh-keygen -R HOST, and connect once with ssh",
            )
        except errors.AuthenticationException as error:
            self._fail(NotLetIn, str(error), f"`ssh {self._host} true` has to work by itself")
        except (OSError, EOFError, errors.SSHException) as error:
            if "known_hosts" in str(error):
                hint = f"connect once by hand and compare the key: ssh {self._host} true"
                self._fail(WrongKey, str(error), hint)
            words = str(error).removeprefix("[Errno None] ") or type(error).__name__
            self._fail(Unreachable, words, f"is it on? `ssh {self._host} true` has to work")
        self._connection.transport.set_keepalive(_KEEPALIVE_S)

    def _fail(self, kind: type[HostError], words: str, hint: str) -> None:
        self.close()
        raise kind(f"ssh {self._host}: {words}", hint=hint) from None

    def begin(self, script: str, *, timeout_s: float) -> FabricCommand:
        if self._connection is None:
            raise Unreachable(f"ssh {self._host}: not connected")
        errors = importlib.import_module("paramiko").ssh_exception
        try:
            channel = self._connection.transport.open_session(timeout=timeout_s)
            # paramiko waits for the server's answer without a deadline.
            timer = threading.Timer(timeout_s, channel.close)
            timer.start()
            try:
                channel.exec_command(f"sh -c {shlex.quote(script)}")
            finally:
                timer.cancel()
        except (OSError, EOFError, errors.SSHException) as error:
            raise Unreachable(f"ssh {self._host}: {error or 'the link is lost'}") from None
        return FabricCommand(channel)

    def run(self, script: str, *, stdin: Iterable[bytes] = (), timeout_s: float) -> Done:
        deadline = time.monotonic() + timeout_s
        command = self.begin(script, timeout_s=timeout_s)
        try:
            output = command.converse(stdin, deadline)
            status = command.wait_status(deadline)
        except TimeoutError:
            raise DeadlineExceeded(
                f"ssh {self._host}: no answer within {timeout_s:.0f} s"
            ) from None
        except OSError as error:
            raise Unreachable(f"ssh {self._host}: {error}") from None
        finally:
            command.close()
        if status is None:
            raise Unreachable(f"ssh {self._host}: the link was lost")
        return Done(status, output, command.printed)

    def another(self) -> FabricRemote:
        return FabricRemote(self._host)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _know_hosts(connection: Any, paramiko: Any) -> None:
    """Only hosts that are known are accepted, as of ssh with StrictHostKeyChecking=yes."""
    client = connection.client
    client.set_missing_host_key_policy(paramiko.RejectPolicy())
    named = connection.ssh_config.get("userknownhostsfile", "~/.ssh/known_hosts")
    try:
        own = words_of(named)
    except ValueError as error:
        raise UsageError(
            f"UserKnownHostsFile of ssh's configuration: {error}",
            hint="mend it in ~/.ssh/config or /etc/ssh/ssh_config",
        ) from None
    for name in ("/etc/ssh/ssh_known_hosts", *own):
        with contextlib.suppress(FileNotFoundError):
            client.load_system_host_keys(str(expanded(name)))


class FabricCommand(Closing):
    """A command on a channel of paramiko's."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel
        self._printed = b""
        self._listener = threading.Thread(target=self._listen, name="stderr", daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        while True:
            try:
                data = self._channel.recv_stderr(_CHUNK)
            except TimeoutError:  # of whoever waits for its standard output
                if self._channel.closed:
                    return
                continue
            except OSError:
                return
            if not data:
                return
            self._printed = (self._printed + data)[-_PRINTED_MAX:]

    def converse(self, stdin: Iterable[bytes], deadline: float) -> bytes:
        """Sends `stdin`, and returns all of its standard output.  Raises OSError."""
        self._send(stdin, deadline)
        said = bytearray()
        while True:
            self._channel.settimeout(max(deadline - time.monotonic(), 0.0))
            data = self._channel.recv(_CHUNK)
            if not data:
                return bytes(said)
            said += data

    def _send(self, stdin: Iterable[bytes], deadline: float) -> None:
        try:
            for chunk in stdin:
                self._channel.settimeout(max(deadline - time.monotonic(), 0.0))
                self._channel.sendall(chunk)
            self._channel.shutdown_write()
        except TimeoutError:
            raise
        except OSError:
            if not self.ended_in_order:  # else it did not want more, and its status says why
                raise

    def wait_status(self, deadline: float) -> int | None:
        """Its exit status; None if the link was lost.  Raises TimeoutError."""
        if not self._channel.status_event.wait(max(deadline - time.monotonic(), 0.0)):
            raise TimeoutError
        self._listener.join(max(deadline - time.monotonic(), 0.0))
        return self.status

    def read(self) -> bytes:
        try:
            data: bytes = self._channel.recv(_CHUNK)
        except OSError:
            return b""
        if not data and self.ended_in_order:
            self._channel.status_event.wait(_SAID_S)
            self._listener.join(_SAID_S)
        return data

    def write(self, data: bytes) -> None:
        self._channel.sendall(data)

    @property
    def status(self) -> int | None:
        """As the server said it.  One that says no more than the end speaks of a signal."""
        said: int = self._channel.exit_status
        if not self._channel.status_event.is_set():
            return None
        return said if said >= 0 else (_BY_SIGNAL if self.ended_in_order else None)

    @property
    def ended_in_order(self) -> bool:
        """The server's word; a connection that breaks is none."""
        return bool(self._channel.eof_received)

    @property
    def printed(self) -> str:
        return self._printed.decode(errors="replace")

    def close(self) -> None:
        self._channel.close()
