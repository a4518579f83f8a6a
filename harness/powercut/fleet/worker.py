# SPDX-License-Identifier: Apache-2.0
"""Makes trials on a host of a fleet: `python -m powercut.fleet.worker`, by ssh.

Orders come on standard input and answers go to standard output (powercut.fleet.messages).  For an
exploration it judges crash states (powercut.fleet.study).  Each
trial is recorded, judged and packed as `powercut run` would do it, in a folder of its own; its
manifest and verdict go back, its recording stays.  It ends with its input, or once nobody has
said anything for a while: so nothing is left running when the one who asked is gone.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final

from powercut.campaign.runner import ready_rig
from powercut.explore.trial import RecoveredStates
from powercut.fleet.hold import Hold
from powercut.fleet.identity import identity_of, other_parts, plan_of
from powercut.fleet.messages import (
    BEATS,
    LINE_MAX,
    RESULT_FILES,
    Done,
    Message,
    Opening,
    Order,
    Part,
    PhaseOf,
    StateOrder,
    Study,
    Trouble,
    line_of,
)
from powercut.fleet.study import StudyHere
from powercut.model.errors import HostError, PowercutError, UsageError
from powercut.model.events import Phase
from powercut.model.verdict import Verdict
from powercut.rig.engine_shelf import EngineShelf
from powercut.rig.rig import Rig
from powercut.rig.run_id import run_id_of
from powercut.scenario.plan import Cell, Plan
from powercut.store.layout import ResultDir
from powercut.trial.job import TrialJob
from powercut.trial.record import record_trial
from powercut.verdict.judge import verdict_of

_SILENT: Final = 4
"""Exit status of a worker that nobody talks to any more."""


_ROOM_MIN: Final = 64 << 20
"""Bytes.  With less a trial that came to nothing may have lacked room."""


def _ready(plan: Plan) -> Rig:
    return ready_rig([plan], lambda _: None)


class Worker:
    """Takes orders from `orders`; `root` is the fleet's folder on this host."""

    def __init__(
        self,
        root: Path,
        orders: BinaryIO,
        answers: BinaryIO,
        *,
        ready: Callable[[Plan], Rig] = _ready,
        leave: Callable[[int], None] = os._exit,
    ) -> None:
        self._root = root
        self._orders = orders
        self._answers = answers
        self._ready = ready
        self._leave = leave
        self._saying = threading.Lock()
        self._heard = time.monotonic()
        self._over = threading.Event()
        self._shelf = EngineShelf()

    def serve(self) -> None:
        """Until the input ends.  Raises UsageError for an opening that makes no sense."""
        kind, text = self._next("opening", "study")
        if kind == "study":
            self._study(Study.model_validate_json(text))
        else:
            self._make_trials(Opening.model_validate_json(text or "{}"))

    def _study(self, study: Study) -> None:
        self._begin_beats(study.silence_s)
        hold = self._hold(study.parts)
        if hold is None:
            return
        with StudyHere(self._root, study, hold) as here, ThreadPoolExecutor(study.jobs) as pool:
            self._say("hello", here.hello)
            while text := self._next("states")[1]:
                pool.submit(self._judge, here, StateOrder.model_validate_json(text))
            pool.shutdown(cancel_futures=True)
        self._over.set()
        self._leave(0)

    def _judge(self, here: StudyHere, order: StateOrder) -> None:
        try:
            judged = here.judge(order)
        except Exception as error:  # told to the one who asked, who names this host
            self._say_trouble(order.id, error)
        else:
            self._say("judged", judged)

    def _say_trouble(self, number: int, error: Exception) -> None:
        why = str(error) if isinstance(error, PowercutError) else f"{type(error).__name__}: {error}"
        self._say("trouble", Trouble(id=number, why=why[:4000]))

    def _begin_beats(self, silence_s: float) -> None:
        threading.Thread(target=self._beat, args=(silence_s,), daemon=True).start()

    def _make_trials(self, opening: Opening) -> None:
        self._begin_beats(opening.silence_s)
        plan = plan_of(
            opening.scenario,
            (Cell(name, parameters, ()) for name, parameters in opening.cells.items()),
        )
        hold = self._hold(opening.parts)
        if hold is None:
            return
        rig = self._ready(plan)
        self._say("hello", identity_of(rig, plan, hold.digests))
        folder = ResultDir(self._root / opening.folder)
        with self._shelf, ThreadPoolExecutor(opening.jobs) as pool:
            while text := self._next("order")[1]:
                order = Order.model_validate_json(text)
                pool.submit(self._obey, rig, opening, folder, order, hold)
            self._over.set()
            self._leave(0)  # what is under way is not sealed, and asked for by nobody

    def _hold(self, parts: tuple[Part, ...]) -> Hold | None:
        """What was carried here; None if it is something else now: the one who asked names it."""
        hold = Hold(self._root, parts)
        if hold.is_sound:
            hold.publish()
            return hold
        self._say("hello", other_parts(hold.digests))
        self._next()
        self._over.set()
        return None

    def _next(self, *kinds: str) -> tuple[str, str]:
        """Kind and body of the next message, which has to be of `kinds`; empty at the end."""
        while line := self._orders.readline(LINE_MAX):
            self._heard = time.monotonic()
            ((name, body),) = json.loads(line).items()
            if name in kinds:
                return name, json.dumps(body)
            if name != "beat":
                raise UsageError(f"a message called {name!r}")
        return "", ""

    def _beat(self, silence_s: float) -> None:
        while not self._over.wait(silence_s / BEATS):
            if time.monotonic() - self._heard > silence_s:
                self._leave(_SILENT)
                return
            self._say("beat")

    def _say(self, kind: str, message: Message | None = None) -> None:
        with self._saying:
            try:
                self._answers.write(line_of(kind, message))
                self._answers.flush()
            except (OSError, ValueError):  # nobody hears it any more
                self._leave(_SILENT)

    def _obey(self, rig: Rig, opening: Opening, run: ResultDir, order: Order, hold: Hold) -> None:
        start = time.monotonic()
        place = run.place_of(order.name, order.trial.number, control=order.control is not None)
        try:
            run.path.mkdir(parents=True, exist_ok=True)
            _require_room(run.path, opening.room)
            hold.check()
            files = self._make(rig, opening, run, order)
            hold.check()
        except Exception as error:  # told to the one who asked, who names this host
            place.remove()  # what there is of it is of no use, and may be what fills the disk
            self._say_trouble(order.id, error)
        else:
            where = place.path.relative_to(self._root).as_posix()
            seconds = round(time.monotonic() - start, 3)
            self._say("done", Done(id=order.id, folder=where, files=files, seconds=seconds))

    def _make(self, rig: Rig, opening: Opening, run: ResultDir, order: Order) -> dict[str, str]:
        """Makes the trial, judges it, and packs it; its files that are told at once."""

        def notify(phase: Phase) -> None:
            self._say("phase", PhaseOf(id=order.id, phase=phase))

        is_control = order.control is not None
        run.place_of(order.name, order.trial.number, control=is_control).remove()
        directory = run.trial(order.name, order.trial.number, control=is_control)
        job = TrialJob(
            opening.scenario,
            order.name,
            order.parameters,
            order.trial,
            run_id_of(order.trial.seed),
            order.control,
            order.scenario_sha256,
        )
        record_trial(rig, job, directory, notify)
        result = verdict_of(directory, RecoveredStates(self._shelf), notify)
        if result.verdict is Verdict.INCONCLUSIVE:  # on a full disk another host will do better
            _require_room(run.path, max(opening.room, _ROOM_MIN))
        directory.write_verdict(result)
        directory.pack()
        there = [directory.path / name for name in RESULT_FILES]
        return {path.name: path.read_text() for path in there if path.is_file()}


def _require_room(folder: Path, room: int) -> None:
    """Raises HostError if fewer bytes are free."""
    free = shutil.disk_usage(folder).free
    if free < room:
        raise HostError(
            f"only {free >> 20} MiB are free in {folder}, and {room >> 20} are kept",
            hint="make room there, or remove what powercut has there: powercut doctor hosts clean",
        )


def main() -> None:
    """For ssh: the fleet's folder is the one that it starts in."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a tool prints is no answer
    try:
        Worker(Path.cwd(), sys.stdin.buffer, answers).serve()
    except PowercutError as error:
        sys.stderr.write(f"{error}" + (f" ({error.hint})" if error.hint else "") + "\n")
        sys.exit(error.exit_status)


if __name__ == "__main__":
    main()
