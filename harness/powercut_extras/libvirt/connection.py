# SPDX-License-Identifier: Apache-2.0
"""A connection to libvirt on this host, and calls that end when their time is over."""

from __future__ import annotations

import atexit
import functools
import importlib
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from types import ModuleType
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from powercut.model.errors import DeadlineExceeded, HostError

_Result = TypeVar("_Result")
_OPEN_S: Final = 60.0
"""libvirtd examines QEMU when it is first asked, which takes 12 s under emulation."""

_NOT_RUNNING: Final = (
    "start libvirtd (systemctl start libvirtd, or libvirtd -d), or name another connection; "
    "`virsh -c URI version` tries it"
)
_NOT_ALLOWED: Final = (
    "be root, join the group libvirt (usermod -aG libvirt USER), or --connect qemu:///session"
)
_INSTALL: Final = (
    "apt-get install libvirt-daemon-system libvirt-dev, then pip install libvirt-python"
)


def usual_uri() -> str:
    """Where libvirt is asked if nobody says: root's daemon, or the user's own."""
    return "qemu:///system" if os.geteuid() == 0 else "qemu:///session"


@functools.cache
def libvirt_module() -> ModuleType:
    """libvirt-python.  Raises HostError if it is not installed."""
    try:
        module = importlib.import_module("libvirt")
    except ImportError as error:
        raise HostError(f"libvirt cannot be used: {error}", hint=_INSTALL) from None
    # It would print each error on stderr besides raising it.
    module.registerErrorHandler(lambda *_: None, None)
    return module


def within(timeout_s: float, what: str, call: Callable[[], _Result]) -> _Result:
    """`call()` in a thread of its own: libvirt's calls know no deadline.

    Raises DeadlineExceeded when the time is over (the call goes on, and nobody waits for it),
    HostError for what libvirt refuses.
    """
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name=f"libvirt {what}", daemon=True).start()
    try:
        return future.result(max(timeout_s, 0))
    except TimeoutError:
        raise DeadlineExceeded(f"libvirt did not {what} within {timeout_s:.3g} s") from None
    except libvirt_module().libvirtError as error:
        raise HostError(f"libvirt did not {what}: {error}") from None


@functools.lru_cache(maxsize=8)
def _connection(uri: str) -> Any:
    parts = urlsplit(uri)
    driver, _, transport = parts.scheme.partition("+")
    if parts.hostname or transport not in ("", "unix"):
        raise HostError(
            f"{uri} is another host: the disk and the cut are on this one",
            hint="run powercut on that host",
        )
    if driver != "qemu":
        raise HostError(f"{uri}: powercut drives QEMU by libvirt, and no other hypervisor")
    atexit.register(_connection.cache_clear)  # before the module that closes it is torn down
    try:
        return within(_OPEN_S, "answer", lambda: libvirt_module().open(uri))
    except HostError as error:
        remedy = _NOT_ALLOWED if "Permission denied" in str(error) else _NOT_RUNNING
        raise HostError(f"{uri}: {error}", hint=error.hint or remedy) from None


def connect(uri: str) -> Any:
    """The connection to `uri`, which all share; made anew when libvirtd was restarted."""
    connection = _connection(uri)
    if not connection.isAlive():
        _connection.cache_clear()
        connection = _connection(uri)
    return connection


def require_may_start(uri: str) -> None:
    """Raises HostError for a connection that may look at domains and start none.

    libvirt says so of no connection, but of each call: of a domain without a definition, too,
    where it would else find fault with that.
    """
    libvirt = libvirt_module()
    connection = connect(uri)
    try:
        connection.createXML("<domain/>", 0)
    except libvirt.libvirtError as error:
        denied = (libvirt.VIR_ERR_OPERATION_DENIED, libvirt.VIR_ERR_ACCESS_DENIED)
        if error.get_error_code() in denied:
            raise HostError(f"{uri}: it may start no domain: {error}", hint=_NOT_ALLOWED) from None


def wait_until(done: Callable[[], bool], timeout_s: float, *, poll_s: float = 0.002) -> bool:
    """Whether `done()` came true in time."""
    end = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() >= end:
            return False
        time.sleep(poll_s)
    return True
