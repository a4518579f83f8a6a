# SPDX-License-Identifier: Apache-2.0
"""One crash state after the other: recovered and checked, as a live cut would be."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from powercut.checkers.judge import judge
from powercut.checkers.wal import check_log
from powercut.crash.states import CrashState
from powercut.explore.state_images import StateImages
from powercut.model.errors import UsageError
from powercut.model.observation import Observation
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict, lsn_ranges
from powercut.model.versions import HOST
from powercut.paths import WAL_BINARY
from powercut.recording.open_recording import Recording
from powercut.recover.port import ImageWrite, RecoveryEngine, RecoveryPlan
from powercut.recover.uml.engine import UmlEngine
from powercut.recover.uml.origin import PAGE, Origin
from powercut.rig.closing import start_engine
from powercut.rig.engine_choice import EngineChoice, engine_for
from powercut.rig.guest_engine import GuestEngine, check_recorded_kernel
from powercut.rig.host_reader import run_reader
from powercut.rig.scratch import scratch
from powercut.scenario.settings import Parameters

_START_S: Final = 120.0
_STATE_S: Final = 60.0


@dataclass(frozen=True)
class Judgement:
    """What recovery of one state came to.  `verdict` is SAFE if there is no finding."""

    findings: tuple[Finding, ...]
    required: LsnRange | None

    @property
    def verdict(self) -> Verdict:
        """The worst of the findings."""
        return judge(self.findings)

    @property
    def lossy(self) -> tuple[Finding, ...]:
        """The findings that say that something is lost."""
        return tuple(f for f in self.findings if f.verdict is Verdict.LOSSY)

    @property
    def kinds(self) -> frozenset[FindingKind]:
        """The kinds of what is lost."""
        return frozenset(finding.kind for finding in self.lossy)

    @property
    def lsns(self) -> frozenset[int]:
        """The records that are lost."""
        spans = [span for finding in self.lossy for span in finding.lsns]
        return frozenset(lsn for span in spans for lsn in span)

    @property
    def lost(self) -> tuple[LsnRange, ...]:
        """The same as ranges."""
        return lsn_ranges(self.lsns)

    @property
    def message(self) -> str:
        """For a person."""
        return "; ".join(finding.message for finding in self.lossy or self.findings)


class StateJudge:
    """Recovers and checks states of one recording; a context manager.

    A raw log is read on this host; a file system is recovered in User-Mode Linux, or in
    guests where that does not work, and where the disk lies in an image format.
    """

    def __init__(self, recording: Recording, engine: str = "auto", *, kernel: str = HOST) -> None:
        """Starts nothing.

        Raises UsageError if nobody knows how the records lie, or if `engine` cannot do this
        recording; HostError if that one does not work here.
        """
        if recording.plan is None or recording.layout is None:
            raise UsageError(
                f"{recording.directory.path}: nobody said how the records of this log lie",
                hint="import it again with --run-id, --layout and --record",
            )
        raw = not recording.plan.filesystem
        self.choice: EngineChoice = engine_for(
            recording.image_format, raw=raw, name=engine, kernel=kernel
        )
        self._recording = recording
        self._plan, self._layout = recording.plan, recording.layout
        self._images = StateImages(recording.space)
        self._stack = ExitStack()
        self._engine: RecoveryEngine | None = None
        self._raw: _RawReader | None = None
        self.tests = 0

    @property
    def engine(self) -> str:
        """What recovers the states."""
        return self.choice.name

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if self.engine != "raw":
                self._engine = _opened(self._recording, self._plan, self.choice)
                start_engine(self._engine, stack, timeout_s=_START_S)
            else:
                folder = stack.enter_context(scratch())
                self._raw = _RawReader(self._recording.base, self._plan.reader, folder / "disk")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def judge(self, state: CrashState) -> Judgement:
        """Recovers `state` and checks what came back.

        Raises HostError if the engine itself fails.
        """
        self.tests += 1
        writes = self._images.writes(state)
        if self._engine is not None:
            observation = self._engine.recover(writes, timeout_s=_STATE_S)
        else:
            assert self._raw is not None
            observation = self._raw.recover(writes)
        required, attempted = claims_at(self._recording, state.instant)
        findings = check_log(required, attempted, observation, self._layout)
        return Judgement(tuple(findings), required)


def _opened(recording: Recording, plan: RecoveryPlan, choice: EngineChoice) -> RecoveryEngine:
    """An engine for the file system of `recording`, not started."""
    if choice.name == "uml":
        return UmlEngine(recording.base, plan, kernel=choice.kernel)
    # What guest wrote an imported log is not known: the usual one recovers it.
    imported = recording.imported
    parameters = Parameters() if imported else recording.directory.read_record().parameters
    return GuestEngine(recording.base, parameters, plan)


def claims_at(recording: Recording, instant: int) -> tuple[LsnRange | None, int]:
    """What must come back after a cut at `instant`, and the highest LSN that may.

    At the live cut everything counts that was received until the channel was empty.
    """
    claims = recording.evidence.claims
    cut = recording.timeline.cut
    if cut is not None and instant >= int(cut.at):
        first = claims.layout.oldest_required(claims.attempted)
        required = LsnRange(first, claims.acked) if first <= claims.acked else None
        return required, claims.attempted
    return claims.required(instant), claims.attempted_before(instant)


def judge_in_guest(recording: Recording, state: CrashState) -> Judgement:
    """What the recorded kernel makes of `state`, in a guest of its own.

    Raises UsageError for a recording that does not say what its guest was, and HostError
    if this host cannot run it, or has another kernel for it.
    """
    if recording.plan is None or recording.layout is None or recording.imported:
        raise UsageError("nobody knows what guest wrote an imported log")
    record = recording.directory.read_record()
    check_recorded_kernel(record)
    with GuestEngine(recording.base, record.parameters, recording.plan) as engine:
        engine.start(timeout_s=_START_S)
        writes = StateImages(recording.space).writes(state)
        observation = engine.recover(writes, timeout_s=_STATE_S)
    required, attempted = claims_at(recording, state.instant)
    return Judgement(tuple(check_log(required, attempted, observation, recording.layout)), required)


class _RawReader:
    """Reads a raw log from a file that is patched from state to state."""

    def __init__(self, base: Path, reader: tuple[str, ...], image: Path) -> None:
        self._origin = Origin(base)
        self._argv = [str(WAL_BINARY), *(_here(word, image) for word in reader[1:])]
        self._image = image
        with image.open("xb") as file:
            file.truncate(self._origin.size)
            self._put(file.fileno(), self._origin.filled())

    def recover(self, writes: list[ImageWrite]) -> Observation:
        """The log as the reader finds it."""
        with self._image.open("r+b") as file:
            self._put(file.fileno(), self._origin.advance(writes))
        return run_reader(self._argv, timeout_s=_STATE_S)

    def _put(self, fd: int, pages: npt.NDArray[np.int64]) -> None:
        for page, data in zip(pages.tolist(), self._origin.content(pages), strict=True):
            os.pwrite(fd, data.tobytes(), page * PAGE)


def _here(word: str, image: Path) -> str:
    if word.startswith("path="):
        return f"path={image}"
    return "channel=fd:1" if word.startswith("channel=") else word
