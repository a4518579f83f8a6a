# SPDX-License-Identifier: Apache-2.0
"""The `uml` recovery engine: state after state in one User-Mode Linux.

One boot, then for every state: the pages that differ from the last state go into the guest's origin
(a RAM disk), a fresh snapshot is laid over it, PID 1 mounts that snapshot (which is the recovery),
runs the log reader, unmounts and answers.  What recovery writes is in the snapshot alone and is
forgotten with it; docs/recovery-engines.md says what else was tried, and how fast each was.

A kernel that panics or hangs is restarted and asked once more: only what a fresh kernel makes of a
state is held against it.  A mount that is refused in words that a wrong option gets, too, is held
against it if this kernel has mounted another one; a layer below, if it is refused twice as well.
"""

from __future__ import annotations

import stat
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from powercut.closing import Closing
from powercut.model.errors import HostError, UsageError
from powercut.model.failure import Failure
from powercut.model.observation import Observation
from powercut.model.reads import FileRead
from powercut.model.units import SECTOR
from powercut.paths import WAL_BINARY
from powercut.recover.order import EngineOrder
from powercut.recover.plan import Examine, GoOn, HostRoot, Mount, PlanLayers, RecoveryPlan
from powercut.recover.port import FileExtent, FilePlace, ImageWrite, Reads, reads_in
from powercut.recover.uml.answer import REFUSALS, Trouble, borne_out, observe
from powercut.recover.uml.boot import Terminal, UbdDisk, UmlProcess, init_binary, unavailable
from powercut.recover.uml.kernel import MODULE_FILES, OPTIONAL_MODULE_FILES, UmlKernel, host_kernel
from powercut.recover.uml.origin import PAGE, Origin, Pages
from powercut.recover.uml.share import PATCHED_AT, Answer, BarePath, Flag, Share, Step, Verb

__all__ = ["UmlEngine", "unavailable"]

_CHUNK_SECTORS: Final = 64  # 32 KiB: measured, docs/recovery-engines.md
_SHARE_BYTES: Final = 32 << 20
_TREE_BYTES: Final = 192 << 20  # the host gives what is used
_PAGES_A_CALL: Final = (_SHARE_BYTES - PATCHED_AT) // PAGE
_GUEST_MIB: Final = 160  # what the guest needs besides its disk
_ENDING_S: Final = 10.0  # for an answer that says that a program's time was over


class UmlEngine(Closing):
    """Recovers states of `base` in a User-Mode Linux; a `RecoveryEngine` with all powers but one:
    its kernel is not the recorded one.

    `programs` are files of the host by their path in the guest (default: the `wal`
    program as `/bin/wal`).  `memory_mib` is the guest's memory; by default there is room
    for three copies of the disk, of which the host gives what is used: what is not
    zero on the disk, and what one recovery writes.  `track_reads` lets the kernel count
    what each recovery reads: see `reads`.  `disk_fd` gives the guest a disk at /dev/ubda
    for measurements; the engine itself does not use it.  `kernel` is the host's by default.
    """

    def __init__(
        self,
        base: Path,
        plan: RecoveryPlan,
        *,
        programs: Mapping[str, Path] | None = None,
        memory_mib: int | None = None,
        chunk_sectors: int = _CHUNK_SECTORS,
        track_reads: bool = False,
        disk_fd: int | None = None,
        disk_flags: str = "",
        kernel: UmlKernel | None = None,
        terminal: Terminal | None = None,
    ) -> None:
        self._terminal = terminal  # for programs that `execute` starts
        self._base = base
        self._plan = plan
        usual = {} if plan.host is not None else {"/bin/wal": WAL_BINARY}
        self._programs = dict(usual if programs is None else programs)
        self._origin = Origin(base)
        self._unsent = self._origin.watch()
        self._memory_mib = memory_mib or _GUEST_MIB + 3 * -(-self._origin.size >> 20)
        self._chunk = chunk_sectors
        self._disk = None if disk_fd is None else UbdDisk(disk_fd, disk_flags)
        self._kernel = kernel or host_kernel()
        self._share: Share | None = None
        self._archive = b""
        self._process: UmlProcess | None = None
        self._granule = read_granule(self._origin.size) if track_reads else 0
        self._reads: ReadMap | None = None
        self._mounts: bool | None = None
        self.boots = 0
        self.hung = False
        """Whether the last kernel that ended was killed, since it did not answer in time."""
        self.last: Answer | None = None

    @classmethod
    def of(cls, order: EngineOrder) -> Self:
        return cls(order.base, order.plan, track_reads=order.track_reads, kernel=order.kernel)

    @property
    def base(self) -> Path:
        return self._base

    @property
    def origin(self) -> Origin:
        """What stands on its disk: the base image with the writes of the last state."""
        return self._origin

    @property
    def pid(self) -> int | None:
        """The guard's process id; None while nothing runs."""
        return None if self._process is None else self._process.pid

    def is_up(self) -> bool:
        return self._process is not None

    @property
    def reads(self) -> Reads | None:
        """What the last recovery and its reader have read: (offset, length) in bytes, rising.

        A superset, in granules of `read_granule`.  Two states with the same bytes there
        have the same outcome.  None if that is not known: not tracked, or the kernel
        died.
        """
        return None if self._reads is None else self._reads.stretches()

    @property
    def memory_fd(self) -> int:
        """The memory in which `tree` leaves an archive, behind its first page."""
        return self._memory().fd

    def close(self) -> None:
        self._stop()
        share, self._share = self._share, None
        if share is not None:
            share.close()

    def start(self, *, timeout_s: float) -> None:
        """Boots the guest and fills its origin.

        Raises HostError if this host cannot, or not in time.
        """
        reasons = unavailable(self._kernel) if "/bin/wal" in self._programs else []
        if reasons:
            raise HostError("the uml engine cannot run: " + "; ".join(reasons))
        self._archive = self._archive or initramfs(self._programs, self._kernel, self._plan.layers)
        if self._share is None:
            self._share = Share(_SHARE_BYTES if self._plan.host is None else _TREE_BYTES)
        try:
            self._boot(time.monotonic() + timeout_s)
        except (GuestDied, Trouble) as error:
            self._stop()
            self.hung = isinstance(error, GuestDied) and error.hung
            raise HostError(f"User-Mode Linux did not start: {error}") from error

    def follow(self, plan: RecoveryPlan, *, timeout_s: float) -> None:
        """Recovers by `plan` from now on, without another boot: for a recording on the same base.

        Raises HostError if the guest cannot be told.
        """
        same = plan.find(Mount) == self._plan.find(Mount)
        self._plan, self._mounts = plan, self._mounts if same else None
        if self._process is not None:
            self._configure(time.monotonic() + timeout_s)

    def recover(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> Observation:
        """Recovers the base image with `writes` laid over it, in order.

        `timeout_s` is for one attempt, of which there are two if the first ends in a
        panic, a hang or trouble of the engine's own; a restart has as much again.
        Objects that were in the last call's `writes` are taken to be unchanged.  Raises
        HostError if a fresh kernel could not even be asked.
        """
        return self._recover(writes, timeout_s, Flag(0))

    def sample(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> Observation:
        """As `recover`, with a reader that is started once, and continued for each state."""
        return self._recover(writes, timeout_s, Flag.WARM)

    def record(
        self, writes: Sequence[ImageWrite], *, timeout_s: float
    ) -> tuple[Observation, bytes | None]:
        """As `recover`; also returns what was done to the disk from the mount to the end.

        That is a log as dm-log-writes keeps it, marked `after` where a writer that continues
        has ended; None if the kernel died.
        """
        observation = self._recover(writes, timeout_s, Flag.RECORD)
        if self._process is None:
            return observation, None
        return observation, self._log(time.monotonic() + timeout_s)

    def tree(
        self, writes: Sequence[ImageWrite], *, timeout_s: float
    ) -> tuple[Observation, memoryview | None]:
        """As `recover`, with the files as an archive (`recover.native.tree`) instead of a reader.

        The archive is good until the next call; None if the tree cannot be had as one, or the
        state was not recovered.  Only for plans on the host's files.
        """
        return self._handed_over(writes, timeout_s, Flag.TREE)

    def files(self, writes: Sequence[ImageWrite], *, timeout_s: float) -> tuple[FilePlace, ...]:
        """Where the files lie after recovery, sorted by path.  Raises HostError if it fails."""
        observation, answer = self._handed_over(writes, timeout_s, Flag.FILES)
        if answer is None:
            raise HostError(f"the files of a state cannot be listed: {observation.failure}")
        return places_in(answer)

    def files_read(
        self, writes: Sequence[ImageWrite], *, check: bool, timeout_s: float
    ) -> tuple[Observation, tuple[FileRead, ...] | None]:
        """As `DatesReads`; only for plans on the host's files.  Raises HostError."""
        seen = self._recover(writes, timeout_s, Flag.READS | (Flag(0) if check else Flag.FILES))
        last = self.last if seen.complete and seen.recovered else None
        listed = b"" if last is None else self._memory().bytes(last.after_answer, at=last.answer)
        return seen, reads_in(listed)

    def _handed_over(
        self, writes: Sequence[ImageWrite], timeout_s: float, flag: Flag
    ) -> tuple[Observation, memoryview | None]:
        """What is read instead of a log; None if it is not all there."""
        seen = self._recover(writes, timeout_s, flag)
        there = seen.complete and seen.recovered
        return seen, self._memory().view(self.last.answer) if there and self.last else None

    def _recover(self, writes: Sequence[ImageWrite], timeout_s: float, flags: Flag) -> Observation:
        seen = self._ask(writes, timeout_s, flags)
        if seen.recovered and seen.complete:
            self._mounts = True
        if seen.cause not in REFUSALS or (self._mounts and seen.cause is Failure.MOUNT_REFUSED):
            return seen
        if self._mounts is None:
            base = self._ask((), timeout_s, Flag(0))
            self._mounts = base.recovered and base.complete
        if not self._mounts:
            cause = Failure.MOUNT_UNPROVED
            raise HostError(f"{seen.failure}: {cause.reason}", hint=cause.remedy)
        return borne_out(seen, self._ask(writes, timeout_s, flags))

    def _ask(self, writes: Sequence[ImageWrite], timeout_s: float, flags: Flag) -> Observation:
        self._origin.advance(writes)
        if self._process is None:
            self.start(timeout_s=timeout_s)
        try:
            return self._attempt(timeout_s, flags)
        except (GuestDied, Trouble) as first:
            if isinstance(first, Trouble) and first.lasting:
                raise HostError(str(first), hint=first.cause.remedy) from first
            self._stop()
        self.start(timeout_s=max(timeout_s, 30.0))
        try:
            return self._attempt(timeout_s, flags)
        except GuestDied as dead:
            self._stop()
            self.hung = dead.hung
            cause = Failure.SYSTEM_DIED
            return Observation((), recovered=False, complete=False, failure=str(dead), cause=cause)
        except Trouble as trouble:
            self._stop()
            raise HostError(
                f"the uml engine failed on its own: {trouble}", hint=trouble.cause.remedy
            ) from trouble

    def _log(self, deadline: float) -> bytes:

        def read(offset: int, length: int) -> bytes:
            answer = self._checked(Verb.LOG, deadline, offset=offset, length=length)
            return self._memory().bytes(answer.answer)

        return whole_log(read, load=_SHARE_BYTES, most=self._origin.size)

    def capture(self, *, timeout_s: float) -> tuple[ImageWrite, ...]:
        """What the disk is now, beyond the base: the crash state of a cut at this instant.

        Read past every cache, so what only a cache holds is not in it.  Works while
        mounted, and that is what it is for.
        """
        differing, deadline = [], time.monotonic() + timeout_s
        for offset in range(0, self._origin.size, _SHARE_BYTES):
            length = min(_SHARE_BYTES, self._origin.size - offset)
            answer = self._checked(Verb.DUMP, deadline, offset=offset, length=length)
            seen = self._memory().area[: answer.answer].reshape(-1, PAGE)
            differing += self._origin.beyond_base(offset // PAGE, seen)
        return tuple(differing)

    def mount(self, *, timeout_s: float) -> None:
        """Mounts a fresh view of the current state, and leaves it mounted."""
        self._checked(Verb.MOUNT, time.monotonic() + timeout_s)

    def unmount(self, *, timeout_s: float) -> None:
        self._checked(Verb.UMOUNT, time.monotonic() + timeout_s)

    def execute(self, argv: Sequence[str], *, timeout_s: float) -> Answer:
        """Runs a program in the guest, with its channel as in the plan."""
        text = b"".join(word.encode() + b"\0" for word in argv) + b"\0"
        self._memory().put(text)
        return self._checked(Verb.EXEC, time.monotonic() + timeout_s, length=len(text))

    def bare(self, path: BarePath, rounds: int, *, timeout_s: float) -> Answer:
        """The loop that the engine is measured against: fresh disk, mount, unmount."""
        return self._checked(Verb.BARE, time.monotonic() + timeout_s, offset=path, count=rounds)

    def _memory(self) -> Share:
        if self._share is None:
            raise HostError("the uml engine has not been started")
        return self._share

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _boot(self, deadline: float) -> None:
        """Boots, then gives the guest its plan and everything on the disk that is not zero."""
        self._stop()
        share = self._memory()
        share.prepare_boot(self._origin.size, self._chunk)
        filled = self._origin.filled()
        self._unsent.take()  # all of it is sent now
        self._process = UmlProcess(
            self._kernel,
            self._archive,
            share.fd,
            memory_mib=self._memory_mib,
            need=(_GUEST_MIB << 20) + 2 * PAGE * len(filled),
            disk=self._disk,
            terminal=self._terminal,
            host=self._plan.host,
        )
        self.boots += 1
        wait_ring(self._process, deadline, "boot")
        self._configure(deadline)
        self._patch(filled, deadline)

    def _configure(self, deadline: float) -> None:
        self._memory().put(text := plan_text(self._plan, self._kernel, boot=self.boots))
        self._checked(Verb.CONFIGURE, deadline, length=len(text))

    def _attempt(self, timeout_s: float, flags: Flag) -> Observation:
        limit_ms = 0 if self._plan.host is None else int(timeout_s * 1000)
        deadline = time.monotonic() + timeout_s + (_ENDING_S if limit_ms else 0)
        assert self._process is not None
        self._process.clear_console()
        self._reads = None
        rest = self._put(self._patch(self._unsent.take(), deadline, keep_last=True))
        handed = Flag.TREE | Flag.FILES
        if self._plan.find(GoOn) is not None and not flags & (handed | Flag.READS):
            flags |= Flag.AFTER
        answer = self._call(
            Verb.RECOVER, deadline, count=rest, track=self._granule, flags=flags, limit_ms=limit_ms
        )
        self.last = answer
        said = self._process.console() if answer.step is not Step.NONE else ""
        program, tree = self._plan.host is not None, bool(flags & handed)
        observation = observe(self._memory(), answer, said, program=program, tree=tree)
        if self._granule:
            begin = answer.answer + answer.after_answer
            words = self._memory().area[begin : begin + answer.reads]
            self._reads = ReadMap.of(words, self._granule, self._origin.size)
        return observation

    def _patch(self, pages: Pages, deadline: float, *, keep_last: bool = False) -> Pages:
        """Sends `pages` to the origin, all of them or all but the last load."""
        while len(pages) > (_PAGES_A_CALL if keep_last else 0):
            load, pages = pages[:_PAGES_A_CALL], pages[_PAGES_A_CALL:]
            answer = self._call(Verb.PATCH, deadline, count=self._put(load))
            if answer.step is not Step.NONE:
                raise Trouble(answer.reason)
        return pages

    def _put(self, pages: Pages) -> int:
        """Puts patches for `pages` into the shared memory; returns how many there are."""
        return self._memory().put_pages(pages, self._origin.content(pages)) if len(pages) else 0

    def _checked(self, verb: Verb, deadline: float, **arguments: int) -> Answer:
        try:
            answer = self._call(verb, deadline, **arguments)
        except GuestDied as dead:
            self._stop()
            raise HostError(f"the guest died: {dead}") from dead
        if answer.step is not Step.NONE:
            raise HostError(f"the guest failed: {answer.reason}")
        return answer

    def _call(self, verb: Verb, deadline: float, **arguments: int) -> Answer:
        if self._process is None:
            raise HostError("the uml engine has not been started")
        return ask(self._process, self._memory(), verb, deadline, **arguments)


# Where files lie on a disk, as guests/uml/files.c tells it (guests/uml/share.h, struct pcu_file).
#
# The disk may be a stranger's, and so may what its file system says: every number is checked.

_FILE: Final = struct.Struct("<IIII")  # mode, bytes of the path, extents, reserved
_EXTENT: Final = struct.Struct("<QQQ")  # disk, file, length
_MOST: Final = 1 << 62


def places_in(answer: memoryview) -> tuple[FilePlace, ...]:
    """The files in an answer, sorted by path.  Raises HostError for one that is none."""
    try:
        return tuple(sorted(_places(answer), key=lambda place: place.path))
    except (struct.error, ValueError) as error:
        raise HostError(f"the guest's list of files: {error}") from error


def _places(answer: memoryview) -> Iterator[FilePlace]:
    at = 0
    while at < len(answer):
        mode, path, extents, _ = _FILE.unpack_from(answer, at)
        at += _FILE.size
        if path > len(answer) - at:
            raise ValueError(f"a path of {path} bytes")
        name = bytes(answer[at : at + path]).decode(errors="replace")
        at += path
        found = []
        for _ in range(extents):
            extent = FileExtent(*_EXTENT.unpack_from(answer, at))
            at += _EXTENT.size
            if max(extent.disk, extent.file, extent.length) >= _MOST:
                raise ValueError(f"no disk has {extent}")
            found.append(extent)
        yield FilePlace(name, stat.S_ISDIR(mode), tuple(found))


# The places that a recovery has read, as the recovery kernel counts them: in granules.

_GRANULES_MAX: Final = 32768  # the map is text, a line of up to 60 bytes each, in the guest


@dataclass(frozen=True)
class ReadMap:
    """The granules of `granule` bytes that begin at `places` (rising) on a disk of `size` bytes."""

    places: npt.NDArray[np.int64]
    granule: int
    size: int

    @classmethod
    def of(cls, answer: npt.NDArray[np.uint8], sectors: int, size: int) -> ReadMap:
        """The map in `answer`, u64 each, the first sector of a granule of so many `sectors`."""
        places = answer.copy().view("<u8").astype(np.int64) * SECTOR
        return cls(places, sectors * SECTOR, size)

    def stretches(self) -> Reads:
        """The same with neighbours joined: (offset, length) in bytes, rising."""
        size = self.granule
        begins = np.flatnonzero(np.diff(self.places, prepend=-2 * size) != size)
        ends = np.append(begins[1:], len(self.places)) - 1
        pairs = zip(self.places[begins].tolist(), self.places[ends].tolist(), strict=True)
        return tuple((first, min(last + size, self.size) - first) for first, last in pairs)


def read_granule(size: int) -> int:
    """Sectors per granule of the read map: 4 KiB, or more on a disk with many of those."""
    granule = PAGE // SECTOR
    while size // (granule * SECTOR) > _GRANULES_MAX:
        granule *= 2
    return granule


# One question to PID 1 of a User-Mode Linux, and its answer.
#
# The question lies in the memory that both share (powercut.recover.uml.share); a byte on the line
# between them says that it is there, and one the other way that it is answered.  A guest that does
# not answer in time is killed: nothing that it says later could be told from another answer.


class GuestDied(Exception):
    """The guest panicked or, if it `hung`, was killed; the text is its console."""

    def __init__(self, how: str, console: str, *, hung: bool = False) -> None:
        super().__init__(f"{how}\n{console}".strip())
        self.hung = hung


def ask(process: UmlProcess, share: Share, verb: Verb, deadline: float, **arguments: int) -> Answer:
    """The answer of the guest in `process`, which shares the memory `share`.

    Raises GuestDied; the process is killed by then.
    """
    share.ask(verb, **arguments)
    try:
        process.ring()
    except OSError:
        raise _died(process, "the guest's kernel ended") from None
    wait_ring(process, deadline, verb.name.lower())
    answer = share.answer()
    if answer is None:
        raise _died(process, "the guest answered another question")
    return answer


def wait_ring(process: UmlProcess, deadline: float, what: str) -> None:
    """Returns once the guest has answered to `what`.  Raises GuestDied, as `ask`."""
    rang = process.wait_ring(deadline)
    if rang is None:
        raise GuestDied(
            f"the guest's kernel hung: no answer to {what} in time", process.kill(), hung=True
        )
    if not rang:
        raise _died(process, "the guest's kernel ended")


def _died(process: UmlProcess, how: str) -> GuestDied:
    return GuestDied(how, process.kill())


# How long a log of dm-log-writes is, from its beginning.
#
# The format is in the kernel's Documentation/admin-guide/device-mapper/log-writes.rst and
# docs/formats/dm-log-writes.md; here it is only followed to its end, to know how much of a
# log to fetch.  The reader of the log checks it.

STEP: Final = 1 << 20
"""Bytes that are fetched at a time."""

_MAGIC: Final = 0x6A736677736872
_SUPER: Final = struct.Struct("<QQQI")  # magic, version, entries, sector size
_ENTRY: Final = struct.Struct("<QQQQ")  # sector, sectors, flags, bytes of data
_DISCARD: Final = 4


def whole_log(read: Callable[[int, int], bytes], *, load: int, most: int) -> bytes:
    """A log, read until it says that it ends; `read` is given an offset and a length.

    `load` bytes are read at once at most, and `most` in all.  Raises HostError.
    """
    parts = bytearray()
    needed = STEP
    while len(parts) < needed:
        length = min(load, -(-(needed - len(parts)) // STEP) * STEP)
        if len(parts) + length > most:
            raise HostError("a recovery wrote more than the disk is large: not recorded whole")
        parts += read(len(parts), length)
        needed = log_bytes(parts)
    return bytes(parts[:needed])


def log_bytes(begin: bytes | bytearray) -> int:
    """How many bytes a log takes that begins so, as far as that is known: if the result is
    more than there are, it is to be asked again with that many.

    Raises HostError if it is no such log.
    """
    if len(begin) < _SUPER.size:
        raise HostError("the recovery was not recorded: there is no beginning of a log")
    magic, version, entries, sector = map(int, _SUPER.unpack_from(begin))
    if magic != _MAGIC or version != 1 or sector < SECTOR or sector & (sector - 1):
        raise HostError("the recovery was not recorded: there is no log of it")
    at = sector
    for _ in range(entries):
        if at + sector > len(begin):
            return at + sector
        _, sectors, flags, _ = map(int, _ENTRY.unpack_from(begin, at))
        at += sector + (0 if flags & _DISCARD else sectors * sector)  # a mark has no sectors
    return at


# What a User-Mode Linux boots from: a cpio archive with PID 1 and modules.


def _member(inode: int, path: str, mode: int, data: bytes, device: tuple[int, int]) -> bytes:
    """One member of a cpio archive, format `newc` (the kernel's buffer-format.rst)."""
    name = path.encode() + b"\0"
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return b"".join((header, b"\0" * (-len(header) % 4), data, b"\0" * (-len(data) % 4)))


def initramfs(
    programs: Mapping[str, Path], kernel: UmlKernel, layers: PlanLayers | None = None
) -> bytes:
    """What `kernel` boots from: PID 1, the modules it needs, and `programs` by their paths.

    With what `layers` take.  Raises HostError if it has no such module."""
    modules = kernel.module_folder
    if modules is None:
        raise HostError("no usable UML modules", hint="install the package user-mode-linux")
    files = {"init": init_binary(), **{name.lstrip("/"): path for name, path in programs.items()}}
    optional = [name for name in OPTIONAL_MODULE_FILES if (modules / name).exists()]
    names = (*MODULE_FILES, *optional, *(kernel.files_of(layers) if layers is not None else ()))
    files |= {f"modules/{Path(name).name}": modules / name for name in names}
    folders = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    parts = []
    for inode, name in enumerate(sorted({"dev", *folders}), start=1):
        parts.append(_member(inode, name, stat.S_IFDIR | 0o755, b"", (0, 0)))
    parts.append(_member(1000, "dev/console", stat.S_IFCHR | 0o600, b"", (5, 1)))
    for inode, (name, path) in enumerate(sorted(files.items()), start=2000):
        parts.append(_member(inode, name, stat.S_IFREG | 0o755, path.read_bytes(), (0, 0)))
    parts.append(_member(0, "TRAILER!!!", 0, b"", (0, 0)))
    return b"".join(parts)


# A recovery plan as PID 1 of the recovery kernel wants it (CONFIGURE, guests/uml/share.h).

_LINES_MAX: Final = 60  # guests/uml/init.h


def plan_text(plan: RecoveryPlan, kernel: UmlKernel, *, boot: int = 0) -> bytes:
    """The plan in bytes, for `kernel`: its `boot`th boot for checks, or 0 for a run.

    PID 1 knows one order of steps: open or mount, read, and if wanted go on, close, the same
    again; or unmount and examine.  Raises UsageError for any other.
    """
    mount, go_on, examine = plan.find(Mount), plan.find(GoOn), plan.find(Examine)
    point = "" if mount is None else mount.point
    known = RecoveryPlan.of(
        plan.filesystem,
        plan.mount_options,
        point,
        plan.reader,
        device=plan.device,
        host=plan.host,
        disks=plan.disks,
        layers=plan.layers,
    )
    if go_on is not None:
        known = known.going_on(go_on.command, go_on.records, go_on.seconds)
    if examine is not None:
        known = known.examined(examine.command[:-1])
    if known != plan:
        raise UsageError(
            "engine uml cannot recover this disk: its recovery has steps of which the "
            "recovery kernel knows nothing",
            hint="--engine guest",
        )
    words = [plan.filesystem, plan.mount_options, point, *plan.reader, ""]
    words += [*(go_on.command if go_on is not None else ()), "", *_root(plan.host, boot)]
    words += ["0", "0"] if go_on is None else [f"{go_on.records}", f"{go_on.seconds * 1000:.0f}"]
    words += [f"{disk.offset} {disk.size} {disk.holds} {disk.name}" for disk in plan.disks]
    words += ["", *_layers(plan.layers, kernel), "", *(examine.command if examine else ()), ""]
    words += [*(plan.host.nodes if plan.host is not None else ()), ""]
    return b"".join(word.encode() + b"\0" for word in words)


def _layers(layers: PlanLayers | None, kernel: UmlKernel) -> list[str]:
    if layers is None:
        return []
    lines = [*(f"+{Path(file).stem}" for file in kernel.files_of(layers)), *layers.lines]
    if len(lines) > _LINES_MAX:
        raise UsageError("disk.layers: they are more than the recovery kernel takes")
    return lines


def _root(host: HostRoot | None, boot: int) -> list[str]:
    if host is None:
        return [""] * 10
    lists = [*host.environment, "", *host.visible, ""]
    machine = [host.machine.mac, host.machine.machine_id, f"{host.machine.boot(boot).first_pid}"]
    return ["/host", host.folder, *lists, host.base, host.program, host.tools, *machine]
