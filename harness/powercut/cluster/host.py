# SPDX-License-Identifier: Apache-2.0
"""What a worker does for a controller: makes trials, judges crash states, keeps the evidence.

`answer` is called by the engine (powercut.cluster.task), in several threads of one process.  Each
trial is recorded, judged and packed as `powercut run` would do it, in a folder of its own; its
manifest and verdict go back, its recording stays.

A trial is a function of what was ordered, so it has one outcome.  One that was judged is not made
again, however often the engine asks; one whose worker died in the midst of it is, and its answer
says how often it was begun.
"""

from __future__ import annotations

import base64
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Final

from powercut.campaign.runner import ready_rig
from powercut.cluster.hold import Hold
from powercut.cluster.identity import hello_of, identity_of, plan_of
from powercut.cluster.messages import (
    FOLDER,
    RESULT_FILES,
    ROOM,
    Begin,
    Chunk,
    Done,
    Hello,
    Listing,
    Message,
    Opening,
    Order,
    Paths,
    StateOrder,
    TrialAnswers,
    TrialOrders,
    Trouble,
    Wanted,
    context_of,
)
from powercut.cluster.study import StudyHere
from powercut.explore.trial import RecoveredStates
from powercut.model.errors import HostError, PowercutError
from powercut.model.verdict import Verdict
from powercut.paths import expanded
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.rig import Rig
from powercut.rig.run_id import run_id_of
from powercut.scenario.plan import Cell, Plan
from powercut.store.files import host_errors
from powercut.store.layout import ResultDir, folder_name
from powercut.store.trial_dir import TrialDir
from powercut.trial.job import TrialJob
from powercut.trial.record import record_trial
from powercut.verdict.judge import verdict_of

_ROOM_MIN: Final = 64 << 20
"""Bytes.  With less a trial that came to nothing may have lacked room."""


def answer(call: str, text: str, name: str, threads: int) -> str:
    """The answer to a call: the text of a message; of Trouble, whatever goes wrong.

    `name` and `threads` are those of the worker.
    """
    HERE.name, HERE.threads = name, threads
    return HERE.answer(call, text)


def _trouble(error: Exception) -> Trouble:
    why = str(error) if isinstance(error, PowercutError) else f"{type(error).__name__}: {error}"
    return Trouble(why=why[:4000] or "it does not say why")


def host_folder() -> Path:
    """Powercut's folder on this host."""
    return Path(os.environ.get(FOLDER) or expanded("~/.cache/powercut-cluster"))


class RunHere:
    """A run that this host has a part in."""

    def __init__(self, opening: Opening, root: Path, name: str, rig: Rig, hold: Hold) -> None:
        self._opening = opening
        self._root = root
        self._rig = rig
        self._hold = hold
        self._run = ResultDir(root / opening.folder / folder_name(name))
        self._shelf = EngineShelf()
        self._room = int(os.environ.get(ROOM) or opening.room)

    def make(self, orders: TrialOrders) -> TrialAnswers:
        """Makes trials in turn."""
        return TrialAnswers(answers=tuple(map(self._obey, orders.orders)))

    def _obey(self, order: Order) -> Done | Trouble:
        start = time.monotonic()
        is_control = order.control is not None
        place = self._run.place_of(order.name, order.trial.number, control=is_control)
        tries = place.path.with_name(f"{place.path.name}.tries")
        try:
            self._run.path.mkdir(parents=True, exist_ok=True)
            if not _outcomes(tries):
                _require_room(self._run.path, self._room)
                self._hold.check()
                outcome = self._make(order, place, tries)
                self._hold.check()
                _note(tries, outcome)
            there = [place.path / name for name in RESULT_FILES]
            return Done(
                folder=place.path.relative_to(self._root).as_posix(),
                files={path.name: path.read_text() for path in there if path.is_file()},
                seconds=round(time.monotonic() - start, 3),
                tries=tries.read_text().count("begun\n"),
                outcomes=_outcomes(tries),
            )
        except Exception as error:  # told to the one who asked, who names this host
            place.remove()  # what there is of it is of no use, and may be what fills the disk
            return _trouble(error)

    def _make(self, order: Order, place: TrialDir, tries: Path) -> str:
        """Makes the trial, judges it, and packs it."""
        is_control = order.control is not None
        place.remove()
        directory = self._run.trial(order.name, order.trial.number, control=is_control)
        job = TrialJob(
            self._opening.scenario,
            order.name,
            order.parameters,
            order.trial,
            run_id_of(order.trial.seed),
            order.control,
            order.scenario_sha256,
        )
        _note(tries, "begun")
        record_trial(self._rig, job, directory, lambda _: None, self._shelf)
        result = verdict_of(directory, RecoveredStates(self._shelf), lambda _: None)
        if result.verdict is Verdict.INCONCLUSIVE:  # on a full disk another host will do better
            _require_room(self._run.path, max(self._room, _ROOM_MIN))
        directory.write_verdict(result)
        directory.pack()
        return result.verdict.name


class HostHere:
    """This host: its folder, and what was begun on it, by the digest of its hello."""

    def __init__(
        self, root: Path | None = None, ready: Callable[[Plan], Rig] | None = None
    ) -> None:
        self.root = root or host_folder()
        self.name = ""
        self.threads = 1
        self._ready = ready or (lambda plan: ready_rig([plan], lambda _: None))
        self._begun: dict[str, RunHere | StudyHere] = {}
        self._hellos: dict[str, Hello] = {}
        self._beginning = threading.Lock()
        self._calls: dict[str, Callable[[str], Message]] = {
            "hello": self.hello,
            "trials": self.trials,
            "states": self.states,
            "has": self.has,
            "list": self.list,
            "read": self.read,
            "write": self.write,
        }

    def answer(self, call: str, text: str) -> str:
        """See `answer` of the module."""
        try:
            return self._calls[call](text).model_dump_json()
        except Exception as error:  # told to the one who asked, who names this host
            return _trouble(error).model_dump_json()

    def hello(self, text: str) -> Hello:
        """Begins a run or an exploration, once; what this host is."""
        context = context_of(text)
        with self._beginning, host_errors(self.root):
            if context not in self._hellos:
                self.root.mkdir(parents=True, exist_ok=True)
                self._hellos[context] = self._begin(context, Begin.model_validate_json(text))
            return self._hellos[context]

    def _begin(self, context: str, begin: Begin) -> Hello:
        opening, study = begin.opening, begin.study
        hold = Hold(self.root, opening.parts if opening else study.parts if study else ())
        if not hold.is_sound:
            return hello_of(hold.digests)
        hold.publish()
        if study is not None:
            here = StudyHere(self.root, study, self.threads, hold)
            here.__enter__()  # its workers live as long as this process
            self._begun[context] = here
            return here.hello
        if opening is None:
            raise HostError("there is nothing to begin")
        cells = (Cell(name, parameters, ()) for name, parameters in opening.cells.items())
        plan = plan_of(opening.scenario, cells)
        rig = self._ready(plan)
        self._begun[context] = RunHere(opening, self.root, self.name, rig, hold)
        return identity_of(rig, plan, hold.digests)

    def trials(self, text: str) -> TrialAnswers:
        """Makes trials of a run."""
        orders = TrialOrders.model_validate_json(text)
        run = self._begun.get(orders.context)
        if not isinstance(run, RunHere):
            raise HostError("the run was never begun here")
        return run.make(orders)

    def states(self, text: str) -> Message:
        """Judges crash states of a recording."""
        order = StateOrder.model_validate_json(text)
        study = self._begun.get(order.context)
        if not isinstance(study, StudyHere):
            raise HostError("the exploration was never begun here")
        return study.judge(order)

    def has(self, text: str) -> Paths:
        """Which of some paths are there."""
        wanted = Paths.model_validate_json(text).paths
        return Paths(paths=tuple(path for path in wanted if self._path(path).exists()))

    def list(self, text: str) -> Listing:
        """The plain files below a folder."""
        (folder,) = Paths.model_validate_json(text).paths
        root = self._path(folder)
        files = (path for path in sorted(root.rglob("*")) if path.is_file())
        sizes = {
            p.relative_to(root).as_posix(): p.stat().st_size for p in files if not p.is_symlink()
        }
        return Listing(files=sizes)

    def read(self, text: str) -> Chunk:
        """A part of a file."""
        wanted = Wanted.model_validate_json(text)
        with self._path(wanted.path).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(wanted.offset)
            data = base64.b64encode(file.read(wanted.length)).decode()
        return Chunk(path=wanted.path, offset=wanted.offset, size=size, data=data)

    def write(self, text: str) -> Paths:
        """Takes a part of a file, which is there once it is whole; what is there already stays."""
        chunk = Chunk.model_validate_json(text)
        path = self._path(chunk.path)
        new = path.with_name(f".{path.name}.{os.getpid()}.new")
        try:
            with host_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                with new.open("r+b" if chunk.offset else "wb") as file:
                    file.seek(chunk.offset)
                    end = chunk.offset + file.write(base64.b64decode(chunk.data))
                    os.fchmod(file.fileno(), 0o755 if chunk.mode & 0o100 else 0o644)
                if end == chunk.size:
                    new.rename(path)
        except HostError:
            new.unlink(missing_ok=True)  # a part of it is of no use, and may be what fills the disk
            raise
        return Paths(paths=())

    def _path(self, name: str) -> Path:
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise HostError(f"{name} is not below powercut's folder")
        return self.root / path


def _outcomes(tries: Path) -> tuple[str, ...]:
    lines = tries.read_text().split() if tries.exists() else []
    return tuple(line for line in lines if line != "begun")


def _note(tries: Path, line: str) -> None:
    with host_errors(tries), tries.open("a") as file:
        file.write(f"{line}\n")


def _require_room(folder: Path, room: int) -> None:
    """Raises HostError if fewer bytes are free."""
    free = shutil.disk_usage(folder).free
    if free < room:
        raise HostError(
            f"only {free >> 20} MiB are free in {folder}, and {room >> 20} are kept",
            hint="make room there, or remove what powercut has there: powercut doctor hosts clean",
        )


HERE: Final = HostHere()
