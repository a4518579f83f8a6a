# SPDX-License-Identifier: Apache-2.0
"""Tries a program's contract on this host, before its power is cut: problems are no verdict.

What would make every verdict on it worthless is found in seconds: claims that cannot be, a check
that finds less than was acknowledged although nothing happened, or more than was tried, or
operations in an empty folder.
"""

from __future__ import annotations

import ctypes
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from powercut.channel.lines import LineCounter
from powercut.crash.folder import FolderSpace, Tree
from powercut.crash.folder_rows import Promise
from powercut.crash.states import CrashState
from powercut.disk.folder_log import read_folder_log
from powercut.model.errors import HostError, PowercutError
from powercut.model.named_path import files_below
from powercut.model.observation import Observation
from powercut.model.operations import OperationHistory, Packet, Sighting
from powercut.model.reads import CheckReads
from powercut.model.timeline import RequestKind
from powercut.model.units import NEVER
from powercut.model.verdict import Verdict
from powercut.recording.folder import build_tree, fingerprint, remove_tree
from powercut.recover.native.folder import confined_command
from powercut.rig.folder import CapturedFolder
from powercut.rig.folder_acks import FolderAcks
from powercut.rig.reads import noting_reads
from powercut.rig.scratch import scratch
from powercut.sandbox.printed import end_of, printed
from powercut.workload.port import Run
from powercut.workload.program.check import check_operations
from powercut.workload.program.claims import history_of, sighting_of
from powercut.workload.program.workload import ProgramWorkload

OPERATIONS_WANTED: Final = 50
_TAIL: Final = 400  # characters of what a verb printed


@dataclass(frozen=True)
class ContractStep:
    """One thing that was tried; `problems` is empty if it went well."""

    what: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Ended:
    """What came of a verb: status None if it was stopped, what it printed, what it said."""

    status: int | None
    printed: str
    packets: tuple[Packet, ...]
    why: str
    """Why it was stopped, if not because that was wanted."""

    said_too_much: bool

    @property
    def how(self) -> str:
        return self.why if self.status is None else f"ended with status {self.status}"


def try_contract(program: ProgramWorkload, *, seed: int, seconds: float) -> Iterator[ContractStep]:
    """Tries setup, check, run and check again; ends with the first step that has a problem.

    `run` is killed after OPERATIONS_WANTED acks or `seconds`; every other verb may take that long,
    too.  Raises HostError.
    """
    with scratch() as root:
        folder, empty, temporary = root / "data", root / "empty", root / "tmp"
        empty.mkdir()
        root.chmod(0o755)  # a server that refuses to run as root becomes another user
        temporary.mkdir()
        temporary.chmod(0o1777)
        verbs = _Verbs(program, seed, seconds, temporary)
        steps: tuple[Callable[[], ContractStep], ...] = (
            lambda: _setup(verbs, folder),
            lambda: _check(verbs, folder, "check finds nothing after setup alone"),
            lambda: _run(verbs, folder),
            lambda: _check(verbs, folder, "check finds what was acknowledged"),
            lambda: _torn(verbs, root / "torn", root / "states"),
            lambda: _empty(verbs, empty),
        )
        for step in steps:
            done = step()
            yield done
            if done.problems:
                return


def set_up(program: ProgramWorkload, folder: Path, *, seed: int, seconds: float) -> tuple[str, ...]:
    """Has `setup` make `folder` ready, on this host; what was wrong.  Raises HostError."""
    with scratch() as temporary:
        return _setup(_Verbs(program, seed, seconds, temporary), folder).problems


def _setup(verbs: _Verbs, folder: Path) -> ContractStep:
    folder.mkdir(exist_ok=True)
    ended = verbs.verb("setup", folder)
    return ContractStep("setup makes the folder ready", _status_problems("setup", ended))


def _run(verbs: _Verbs, folder: Path) -> ContractStep:
    verbs.before = _dates(folder)
    ended = verbs.verb("run", folder, acks=OPERATIONS_WANTED)
    verbs.history = history_of(ended.packets)
    problems = list(verbs.history.trouble)
    if ended.status or ended.said_too_much:
        problems += _status_problems("run", ended)
    if not len(verbs.history.acked):
        problems.append(
            f"run acknowledged nothing: it writes `+ N` lines to POWERCUT_FD{_also(ended)}"
        )
    what = (
        f"run tried {len(verbs.history.attempted)} operations and acknowledged "
        f"{len(verbs.history.acked)}; then it was killed"
    )
    return ContractStep(what, tuple(problems))


def _check(verbs: _Verbs, folder: Path, what: str) -> ContractStep:
    """A check may change what it looks at, as recovery does: it gets a copy."""
    copy = _copied(folder)
    written = [copy / path.relative_to(folder) for path in verbs.written(folder)]
    with noting_reads(copy, written) as unread_files:
        ended = verbs.verb("check", copy)
        unread = unread_files() or ()
    _remove(copy)
    seen = _sighting(ended)
    findings = check_operations(verbs.history, int(NEVER), seen)
    problems = [finding.message for finding in findings if finding.verdict is not Verdict.SAFE]
    if verbs.history.keeps != "every":
        acked = frozenset(verbs.history.acked.tolist())
        found = len(seen.those_present(acked))
        what = f"check finds {found} of {len(acked)} operations (`promise {verbs.history.keeps}`)"
        if not found:
            problems.append("nothing shows that the check would see an operation")
    reads = CheckReads(len(written), tuple(str(path.relative_to(copy)) for path in unread))
    if reads.blind:
        problems.append(reads.blind)
    elif reads.words:
        what += f"; not tested: {reads.words}"
    return ContractStep(what, tuple(problems))


def _dates(folder: Path) -> dict[Path, tuple[int, int]]:
    """When each file was changed last, in nanoseconds, and its size in bytes."""
    files = _files(folder)
    return {path: (found.st_mtime_ns, found.st_size) for path in files if (found := path.stat())}


def _copied(folder: Path) -> Path:
    copy = folder.with_name("copy")
    done = subprocess.run(
        ["cp", "-a", "--", folder, copy], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise HostError(f"cannot copy what the program has made: {done.stderr.strip()}")
    return copy


def _files(folder: Path) -> list[Path]:
    found = files_below(folder, "*", of_results=False)
    return [path for path in found if path.is_file() and not path.is_symlink()]


def _remove(copy: Path) -> None:
    """However deep its folders are, which a program decides: Python removes them by recursion."""
    subprocess.run(["rm", "-rf", "--", copy], stderr=subprocess.DEVNULL, check=False)


def _torn(verbs: _Verbs, folder: Path, beside: Path) -> ContractStep:
    """Where an operation was under way, and a write of it is missing that a cut may take, `check`
    leaves it out, and does not call it wrong.
    """
    what = "check tolerates an unfinished operation"
    if verbs.history.atomic:
        return ContractStep(what)
    for made in (folder, beside):
        made.mkdir()
    tested = 0
    try:
        set_up = verbs.verb("setup", folder)
        if set_up.status:
            return ContractStep(what, _status_problems("setup, a second time,", set_up))
        for state in verbs.unfinished(folder, beside):
            tested += 1
            seen = _sighting(verbs.verb("check", state.folder))
            for number, text in seen.wrong:
                if number in state.operations:
                    return ContractStep(what, (_called_wrong(number, text),))
    except PowercutError as error:
        return ContractStep(f"{what}; not tested, since no folder can be captured here: {error}")
    told = f": {tested} states of a cut" if tested else "; not tested: no write was under way"
    return ContractStep(f"{what}{told}")


def _called_wrong(number: int, text: str) -> str:
    return (
        f"check says `x {number} {text}` where a power cut has taken a write of that operation, "
        "which was not acknowledged yet.  Leave such an operation out; or have `run` say `atomic`, "
        "if none may ever be seen"
    )


def _empty(verbs: _Verbs, folder: Path) -> ContractStep:
    seen = _sighting(verbs.verb("check", folder))
    problems = ["check finds operations in an empty folder"] if seen.present else []
    return ContractStep("check finds nothing in an empty folder", tuple(problems))


def _sighting(ended: _Ended) -> Sighting:
    data = b"".join(packet.data for packet in ended.packets)
    failure = "" if ended.status == 0 else f"it {ended.how}{_also(ended)}"
    return sighting_of(Observation((), complete=ended.status == 0, failure=failure, lines=data))


def _status_problems(verb: str, ended: _Ended) -> tuple[str, ...]:
    if ended.status == 0:
        return ()
    return (f"{verb} {ended.how}{_also(ended)}",)


def _also(ended: _Ended) -> str:
    return f"; it printed: {ended.printed}" if ended.printed else ""


_LINES_MAX: Final = 64 << 20
"""Bytes of lines; a program that says more is ended."""

_NOTHING: Final = history_of([])


class _Verbs:
    """Runs verbs, and keeps what `run` claimed."""

    def __init__(
        self, program: ProgramWorkload, seed: int, seconds: float, temporary: Path
    ) -> None:
        """What the program leaves in `temporary`, its TMPDIR, goes with it."""
        self._program = program
        self._temporary = temporary
        self._seed = seed
        self._seconds = seconds
        self.history = _NOTHING
        self.before: dict[Path, tuple[int, int]] | None = None

    def written(self, folder: Path) -> list[Path]:
        """The files that hold something, and that `run` made or changed."""
        if self.before is None:
            return []
        now = _dates(folder).items()
        return [path for path, date in now if date[1] and self.before.get(path) != date]

    def verb(self, verb: str, folder: Path, *, acks: int | None = None) -> _Ended:
        """Runs it to its end, or until so many `acks` were seen or the time is over."""
        reading, writing = os.pipe()
        with tempfile.TemporaryFile() as output, os.fdopen(reading, "rb", 0) as lines:
            said, enough = _Said(acks), threading.Event()
            reader = threading.Thread(target=said.read, args=(lines, enough))
            with orphans_ended():
                with printed(output.fileno()) as to:
                    process = self._start(verb, folder, writing, to)
                reader.start()
                status = self._wait(process, enough, reader if acks else None)
                process.kill()
                process.wait()
            reader.join()
            text = end_of(output.fileno(), _TAIL)
        late = f"did not end within {self._seconds:g} s"
        why = f"said {said.too_much}" if said.too_much else late
        words = " / ".join(text.split("\n")).strip(" /")
        return _Ended(status, words, tuple(said.packets), why, bool(said.too_much))

    def unfinished(self, folder: Path, beside: Path) -> Iterator[Unfinished]:
        """What a cut leaves of `run` in `folder`.  Raises HostError, DamagedRecording."""
        contents = self._program.contents(Run(bytes(16), self._seed))
        argv = self._program.argv("run", str(folder))
        command = ("env", "-C", contents.start, *contents.environment, *argv)
        return unfinished_states(
            command,
            folder,
            beside,
            acks=OPERATIONS_WANTED,
            seconds=self._seconds,
            seed=self._seed,
        )

    def _start(self, verb: str, folder: Path, lines: int, printed: int) -> subprocess.Popen[bytes]:
        # Shells know descriptors of one digit only: it comes as 0 and becomes POWERCUT_FD.
        command = 'exec "$@" 3>&0 0</dev/null'
        argv = ["/bin/sh", "-c", command, "sh", *self._program.argv(verb, str(folder))]
        contents = self._program.contents(Run(bytes(16), self._seed))
        environment = dict(pair.split("=", 1) for pair in contents.environment)
        try:
            return subprocess.Popen(
                argv,
                cwd=contents.start,
                env={"TMPDIR": str(self._temporary), **environment},
                stdin=lines,
                stdout=printed,
                stderr=printed,
                start_new_session=True,
            )
        except OSError as error:
            raise HostError(f"cannot start {argv[4]}: {error.strerror}") from error
        finally:
            os.close(lines)

    def _wait(
        self,
        process: subprocess.Popen[bytes],
        enough: threading.Event,
        reader: threading.Thread | None,
    ) -> int | None:
        """Its status.  With a `reader` of its lines one that ends in order, as the parent of a
        daemon, has not ended before nobody is left who could say more."""
        deadline = time.monotonic() + self._seconds
        status: int | None = None
        while time.monotonic() < deadline and not enough.is_set():
            if status is None:
                try:
                    status = process.wait(0.02)
                except subprocess.TimeoutExpired:
                    continue
            if status or reader is None or not reader.is_alive():
                return status
            reader.join(0.02)
        return status


class _Said:
    """What a verb says; of `run` until so many acks were seen."""

    def __init__(self, acks: int | None) -> None:
        self._acks = acks
        self._counter = LineCounter()
        self.packets: list[Packet] = []
        self.too_much = ""

    def read(self, lines: IO[bytes], enough: threading.Event) -> None:
        size = 0
        while not self.too_much and (data := lines.read(1 << 16)):
            size += len(data)
            self.packets.append(Packet(time.monotonic_ns(), data))
            if size > _LINES_MAX:
                self.too_much = f"more than {_LINES_MAX >> 20} MiB of lines"
            if self._acks is not None:
                self._counter.take(data)
                self.too_much = self.too_much or self._counter.too_much
                if self._counter.acks >= self._acks:
                    enough.set()
            if self.too_much:
                enough.set()


# Ends whatever a program leaves behind, daemons included.
#
# A process that forks away from its session and its process group keeps one thing: an
# ancestor.  While we are a subreaper (prctl(2), PR_SET_CHILD_SUBREAPER) its orphans become our
# children, and can be found.

_PR_SET_CHILD_SUBREAPER: Final = 36  # include/uapi/linux/prctl.h
_PR_GET_CHILD_SUBREAPER: Final = 37
_ENDS_WITHIN_S: Final = 10.0
_POLL_S: Final = 0.002
_libc = ctypes.CDLL(None, use_errno=True)


@contextmanager
def orphans_ended() -> Iterator[None]:
    """On the way out, kills every process that was started meanwhile, and waits for it.

    No other thread may start processes meanwhile.  Raises HostError if one does not go.
    """
    before, was = frozenset(_children()), ctypes.c_int()
    _libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        try:
            _end(before)
        finally:
            _libc.prctl(_PR_SET_CHILD_SUBREAPER, was.value, 0, 0, 0)


def _end(before: frozenset[int]) -> None:
    """Killing one makes its children ours, so it is done until there is none."""
    deadline = time.monotonic() + _ENDS_WITHIN_S
    while left := [pid for pid in _children() if pid not in before]:
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            raise HostError(f"processes of the program do not end: {left}")
        time.sleep(_POLL_S)


def _children() -> list[int]:
    children: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has ended meanwhile
            children += map(int, (task / "children").read_text().split())
    return children


# What a power cut leaves of an operation that is under way, of a program that nobody has recorded.
#
# It runs in a captured folder (powercut.rig.folder) until it has acknowledged enough.  Then folders
# are made that a cut could have left while an operation was under way: each lacks one write that
# was not durable yet, and has all others.  So nothing is missing that a cut cannot take: a file
# that was synced before it got its name is whole under that name.

STATES: Final = 8
_UNIT: Final = 512


@dataclass(frozen=True)
class Unfinished:
    """A folder that a cut may leave; `operations` were under way, and not acknowledged."""

    folder: Path
    operations: frozenset[int]


def unfinished_states(
    command: Sequence[str], folder: Path, beside: Path, *, acks: int, seconds: float, seed: int
) -> Iterator[Unfinished]:
    """Up to `STATES` of `command`, which works in `folder`, each gone when the next is asked for.

    They are made in the folder `beside`, which is empty at first.  Raises HostError where no folder
    can be captured, DamagedRecording.
    """
    space, history = _recorded(command, folder, beside, acks=acks, seconds=seconds, seed=seed)
    states = _states(space, history)
    random.Random(f"{seed}/unfinished").shuffle(states)
    seen: set[bytes] = set()
    for state in states:
        tree = space.tree(state)
        if len(seen) == STATES or (name := fingerprint(tree)) in seen:
            continue
        seen.add(name)
        under_way = history.attempted_before(state.instant) - history.acked_before(state.instant)
        yield from _made(space, tree, beside / "state", under_way)


def _made(
    space: FolderSpace, tree: Tree, target: Path, under_way: frozenset[int]
) -> Iterator[Unfinished]:
    target.mkdir(mode=0o755)
    try:
        build_tree(space, tree, target)
        yield Unfinished(target, under_way)
    finally:
        remove_tree(target)


def _recorded(
    command: Sequence[str], folder: Path, beside: Path, *, acks: int, seconds: float, seed: int
) -> tuple[FolderSpace, OperationHistory]:
    heard = FolderAcks(acks)
    log, memory = beside / "log", beside / "memory"
    memory.mkdir()
    with CapturedFolder(
        folder, log, atomic_unit=_UNIT, seed=seed, output=beside / "printed", on_said=heard.hear
    ) as captured:
        captured.run(confined_command(command, folder, Path.cwd(), memory))
        heard.wait(captured, seconds)
        captured.cut()
    timeline = read_folder_log(log)
    history = history_of(timeline.said, int(timeline.cut_ns or NEVER))
    return FolderSpace(timeline, Promise.JOURNAL, history), history


def _states(space: FolderSpace, history: OperationHistory) -> list[CrashState]:
    """For each write that was made while an operation was under way, and not durable when the first
    of these was acknowledged, or until then: all that was issued but that write.
    """
    states = []
    for number, row in enumerate(space.rows):
        submitted = row.request.submitted_ns
        if row.kind is RequestKind.FLUSH or row.change is not None:
            continue
        under_way = history.attempted_before(submitted) - history.acked_before(submitted)
        ends = [at for one, at in _acks(history) if one in under_way]
        instant = min([int(space.sets.durable_ns[number]), *ends])
        volatile = space.volatile(instant).tolist() if under_way and instant < NEVER else []
        if number in volatile:
            others = tuple(one for one in volatile if one != number)
            states.append(space.legal(CrashState(instant, others)))
    return states


def _acks(history: OperationHistory) -> Iterator[tuple[int, int]]:
    return zip(history.acked.tolist(), history.ack_ns.tolist(), strict=True)
