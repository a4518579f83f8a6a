# SPDX-License-Identifier: Apache-2.0
"""Counts how often a second each way to write returns.

A loop in Python, so that it runs wherever Python does.  What the loop itself costs is
measured beside the rates (`loop_overhead_us`): about half a microsecond, against ten and
more for any sync that reaches a device.

The file has a name while it is measured.  One without (O_TMPFILE) would vanish
if we are killed, but a file system need not write a file that cannot be found after a
crash: btrfs returns at once from fsync on it, which would look like a lie.

Every write differs from the one before, so that no layer can drop it as a repetition.
"""

from __future__ import annotations

import errno
import mmap
import os
import secrets
import signal
import statistics
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from powercut.model.errors import HostError, PowercutError, UsageError
from powercut_extras.probe.judge import Method, Pattern, Rate

PREFIX: Final = ".powercut-probe-"
"""How the name of the file begins."""

APPEND_BYTES_MAX: Final = 64 << 20
"""How far an append goes: without sync it would fill the memory in no time."""

_UNSUPPORTED: Final = frozenset({errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS})
_OVERHEAD_ROUNDS: Final = 2000

_FLAGS: Final = {
    Method.O_DSYNC: os.O_DSYNC,
    Method.O_SYNC: os.O_SYNC,
    Method.DIRECT: os.O_DIRECT,
    Method.DIRECT_FDATASYNC: os.O_DIRECT,
    Method.DIRECT_O_DSYNC: os.O_DIRECT | os.O_DSYNC,
}
_AFTER: Final[dict[Method, Callable[[int], None]]] = {
    Method.FSYNC: os.fsync,
    Method.FDATASYNC: os.fdatasync,
    Method.DIRECT_FDATASYNC: os.fdatasync,
}


@dataclass
class ProbeRates:
    """All rates; `refused` says for each way that is not on offer here why not."""

    loop_overhead_us: float
    rates: list[Rate] = field(default_factory=list)
    refused: dict[Method, str] = field(default_factory=dict)


def measure(
    path: Path,
    *,
    size: int,
    seconds: float,
    block_device: bool = False,
    on_step: Callable[[Method, Pattern], None] = lambda *_: None,
) -> ProbeRates:
    """Measures all methods on `path` in about `seconds` in all, with writes of `size` bytes.

    `path` is a directory, in which a file is made and removed again whatever happens, or
    with `block_device` a device, whose first 64 MiB are overwritten.  Raises UsageError if
    it cannot be written to, and HostError if it is full or fails.
    """
    each_s = seconds / (len(Method) * len(Pattern))
    buffer = mmap.mmap(-1, size)  # page-aligned, as O_DIRECT wants it
    measured = ProbeRates(loop_overhead_us=_overhead_us(buffer))
    try:
        with _signals_interrupt(), _target(path, block_device) as target:
            for method in Method:
                for pattern in Pattern:
                    if method in measured.refused:
                        continue
                    on_step(method, pattern)
                    try:
                        rate = _rate(target, method, pattern, buffer, each_s, block_device)
                    except OSError as error:
                        if error.errno not in _UNSUPPORTED:
                            raise
                        measured.refused[method] = os.strerror(error.errno)
                    else:
                        measured.rates.append(rate)
    except OSError as error:
        raise _in_words(path, error) from error
    finally:
        buffer.close()
    return measured


def _in_words(path: Path, error: OSError) -> PowercutError:
    match error.errno:
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return UsageError(
                f"{path}: {error.strerror}", hint="give a folder in which you may write"
            )
        case errno.ENOENT:
            return UsageError(f"{path}: no file can be made here", hint="give another folder")
        case errno.EBUSY:
            return UsageError(f"{path}: it is in use", hint="unmount it first")
        case errno.ENOSPC | errno.EDQUOT:
            hint = f"the probe needs {APPEND_BYTES_MAX >> 20} MiB for a moment"
            return HostError(f"{path}: {error.strerror}", hint=hint)
    return HostError(f"{path}: {error.strerror}")


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """A terminal that closes and a polite kill end like ^C, so that the file goes."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = {}
    with suppress(ValueError):  # not in the main thread: then signals are not ours
        for number in (signal.SIGTERM, signal.SIGHUP):
            before[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _target(path: Path, block_device: bool) -> Iterator[Path]:
    if block_device:
        # O_EXCL on a block device: not while it is mounted or part of another.
        os.close(os.open(path, os.O_RDWR | os.O_EXCL))
        yield path
        return
    # The name is ours before the file is: there is no moment at which it could be left.
    file = path / f"{PREFIX}{os.getpid()}-{secrets.token_hex(8)}"
    try:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        yield file
    finally:
        file.unlink(missing_ok=True)


def _rate(
    target: Path,
    method: Method,
    pattern: Pattern,
    buffer: mmap.mmap,
    seconds: float,
    block_device: bool,
) -> Rate:
    _prepare(target, pattern, len(buffer), block_device)
    exclusive = os.O_EXCL if block_device else 0
    descriptor = os.open(target, os.O_RDWR | exclusive | _FLAGS.get(method, 0))
    try:
        step = 0 if pattern is Pattern.OVERWRITE else len(buffer)
        once = _operation(descriptor, method, buffer, step)
        once(0)  # what only the first one pays, such as the allocation of structures
        room = APPEND_BYTES_MAX // len(buffer)
        took_ns, elapsed_ns = _repeat(once, seconds, room if step else None)
        # What was only buffered must not slow later writers down.
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    took_ns.sort()
    return Rate(
        method=method,
        pattern=pattern,
        per_s=len(took_ns) / (elapsed_ns / 1e9),
        operations=len(took_ns),
        p50_us=statistics.median(took_ns) / 1000,
        p99_us=took_ns[min(len(took_ns) - 1, len(took_ns) * 99 // 100)] / 1000,
    )


def _prepare(target: Path, pattern: Pattern, size: int, block_device: bool) -> None:
    """The file as the method shall find it: one block, or nothing; durable."""
    if block_device:
        return
    descriptor = os.open(target, os.O_RDWR | os.O_TRUNC)
    try:
        if pattern is Pattern.OVERWRITE:
            os.pwrite(descriptor, bytes(size), 0)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _operation(
    descriptor: int, method: Method, buffer: mmap.mmap, step: int
) -> Callable[[int], None]:
    """Writes once, `number` steps into the file, and makes sure of it as `method` does."""
    pwrite, stamp = os.pwrite, struct.Struct("<QQ").pack_into
    salt = time.monotonic_ns()
    if method is Method.RWF_DSYNC:
        buffers, pwritev, flag = [buffer], os.pwritev, os.RWF_DSYNC

        def with_flag(number: int) -> None:
            stamp(buffer, 0, salt, number)
            pwritev(descriptor, buffers, number * step, flag)

        return with_flag
    after = _AFTER.get(method)
    if after is None:

        def write(number: int) -> None:
            stamp(buffer, 0, salt, number)
            pwrite(descriptor, buffer, number * step)

        return write

    def write_and_sync(number: int) -> None:
        stamp(buffer, 0, salt, number)
        pwrite(descriptor, buffer, number * step)
        after(descriptor)

    return write_and_sync


def _repeat(
    once: Callable[[int], None], seconds: float, at_most: int | None
) -> tuple[list[int], int]:
    """How long each operation took, and all of them together, in nanoseconds."""
    clock = time.perf_counter_ns
    took = []
    begin = before = clock()
    end = begin + int(seconds * 1e9)
    number = 1
    while before < end and (at_most is None or number < at_most):
        once(number)
        now = clock()
        took.append(now - before)
        before = now
        number += 1
    return took, before - begin


def _overhead_us(buffer: mmap.mmap) -> float:
    """What the loop costs: the same with a device that takes everything and does nothing."""
    descriptor = os.open(os.devnull, os.O_RDWR)
    try:
        once = _operation(descriptor, Method.BUFFERED, buffer, 0)
        took, _ = _repeat(once, 1.0, _OVERHEAD_ROUNDS)
    finally:
        os.close(descriptor)
    return statistics.median(took) / 1000
