# SPDX-License-Identifier: Apache-2.0
"""Anybody's program as the port to a workload has it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from powercut.crash.clock import ClocksDisagree, Points, bound_clock
from powercut.crash.dating import NO_ROUND_TRIPS
from powercut.model.errors import UsageError
from powercut.model.observation import Observation
from powercut.model.operations import AckBasis, AckProof, OperationHistory, Packet
from powercut.model.positive import PositiveControl, Whole
from powercut.model.verdict import Finding, merged_ranges
from powercut.paths import DRIVERS, EXAMPLES
from powercut.scenario.machines import LOOP, UML
from powercut.scenario.place import Files, place_of
from powercut.scenario.settings import ControlKind, Parameters, ProgramSettings
from powercut.scenario.settings_program import suite_of
from powercut.workload.port import MOUNT_POINT, Contents, GoingOn, Promises, Run, SuitePackages
from powercut.workload.program.check import doubts_before
from powercut.workload.program.claims import history_of, sighting_of
from powercut.workload.program.positive import positive_control
from powercut.workload.program.promises import ProgramPromises
from powercut.workload.program.sync_trace import TRACER, read_trace, traced

DIR: Final = f"{MOUNT_POINT}/data"
"""The program's folder: on the disk under test, in the root that the program sees."""

PROGRAM: Final = "opt/powercut"
"""Where in a root of its own the program's folder lies that comes from this host."""

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DESCRIPTOR: Final = 3
_GOES_ON_SHARE: Final = 0.25  # of a recovery's time: two checks come with it


class ProgramWorkload:
    """One executable with the verbs `setup`, `run` and `check`; what is required is a set."""

    def __init__(self, parameters: Parameters) -> None:
        settings = parameters.workload
        if not isinstance(settings, ProgramSettings):
            raise TypeError(f"the workload is {settings.kind}, and no program")
        self.settings: ProgramSettings = settings
        self._place = place_of(parameters)
        self._folder = (parameters.machine.folder or "") if self._on_machine else ""
        """That of a machine that is there already; empty for what has a root."""

    @property
    def recovery_s(self) -> float:
        """What one recovery with its check may take, in seconds."""
        return self.settings.state_timeout / 1e9

    @property
    def at_most_s(self) -> float:
        return self.settings.at_most / 1e9

    @property
    def drops_syncs(self) -> bool:
        return self.settings.syncs == "dropped"

    @property
    def executable(self) -> str:
        """The program itself: a path below the scenario's folder, or what PATH has."""
        command = self.settings.command[0]
        if not self._on_host:
            if self._brought is None:
                return command
            return f"{self._brought_to}/{os.path.relpath(self._brought, self._bring)}"
        beside = Path(self.settings.folder) / command
        if "/" in command or beside.is_file():
            return os.path.normpath(beside)
        return shutil.which(command, path=_PATH) or command

    @property
    def _brought_to(self) -> str:
        return f"{self._folder}/program" if self._on_machine else f"/{PROGRAM}"

    @property
    def _data(self) -> str:
        return f"{self._folder}/data" if self._on_machine else DIR

    @property
    def _on_host(self) -> bool:
        return self._place.files is Files.HOST

    @property
    def _on_machine(self) -> bool:
        return self._place.files is Files.MACHINE

    @property
    def _root(self) -> Path | SuitePackages:
        suite = suite_of(self.settings.root)
        if suite is not None:
            return SuitePackages(suite, self.settings.packages)
        return Path(os.path.normpath(Path(self.settings.folder, self.settings.root)))

    @property
    def _traced(self) -> bool:
        return self.settings.syncs == "traced"

    @property
    def _tool(self) -> Path | None:
        return TRACER if self._traced else None

    @property
    def _brought(self) -> Path | None:
        """The program on this host that comes into a root of its own; None if it is there."""
        command = self.settings.command[0]
        if self._on_host or Path(command).is_absolute():
            return None
        return self._below_folder(command)

    @property
    def _bring(self) -> Path:
        """The folder of this host that comes into a root of its own with the program."""
        if not self.settings.bring:
            return self._below_folder(self.settings.command[0]).parent
        return self._below_folder(self.settings.bring)

    def _below_folder(self, path: str) -> Path:
        return Path(os.path.normpath(Path(self.settings.folder, path)))

    @property
    def files_of_command(self) -> tuple[Path, ...]:
        """Which words of the command, but for the first, are files of the folder that comes into a
        root of its own; where they lie here."""
        if self._brought is None:
            return ()
        paths = (self._below_folder(word) for word in self.settings.command[1:])
        return tuple(path for path in paths if path.is_relative_to(self._bring))

    def problems(self) -> tuple[str, ...]:
        if self._traced and not TRACER.is_file():
            return (f"{TRACER} is not built (make -C workloads; x86-64 alone)",)
        root = self._root
        if self._place.files.carried and isinstance(root, Path) and not root.exists():
            return (f"workload.root: {root}: there is no such file or folder",)
        if not self._on_host and self._brought is None:
            return ()
        program = self._brought or Path(self.executable)
        if self._brought is not None and not program.is_relative_to(self._bring):
            return (f"workload.bring: {self._bring}: {program} does not lie in it",)
        return self._problems_on_host(program)

    def _problems_on_host(self, program: Path) -> tuple[str, ...]:
        if self._on_host and not Path(self.settings.folder).is_dir():
            return (f"{self.settings.folder}: there is no such folder to start in",)
        if not program.is_file():
            return (f"{self.settings.command[0]}: there is no such program",)
        return () if os.access(program, os.X_OK) else (f"{program}: it is not executable",)

    def argv(self, verb: str, folder: str = "") -> tuple[str, ...]:
        """The command line of a verb; `folder` is by default the one on the disk under test."""
        return (self.executable, *self.settings.command[1:], verb, folder or self._data)

    def contents(self, run: Run) -> Contents:
        """The root's files, where it starts, and what it finds in its environment."""
        environment = (
            f"PATH={_PATH}",
            "HOME=/tmp",
            "LANG=C.UTF-8",
            f"POWERCUT_FD={_DESCRIPTOR}",
            f"POWERCUT_SEED={run.seed}",
            f"POWERCUT_RUN={run.run_id.hex()}",
            *self.settings.env,
        )
        brought = None if self._brought is None else self._bring
        files = Contents(
            environment=environment,
            data=self._data,
            program=brought,
            brought=self._brought_to,
            tool=self._tool,
        )
        if self._on_machine:
            start = "/" if brought is None else self._brought_to
            return replace(files, start=start, folder=self._folder)
        if not self._on_host:
            return replace(files, root=self._root)
        program, folder = Path(self.executable), self.settings.folder
        visible = [str(Path(os.path.realpath(program)).parent), folder, str(program.parent)]
        # What powercut's own programs import or start, and those of others may.
        visible += [str(path) for path in (EXAMPLES, DRIVERS) if path.is_dir()]
        return replace(files, start=folder, visible=tuple(dict.fromkeys(visible)))

    def preparation(self, run: Run) -> tuple[str, ...]:
        del run
        return self.argv("setup")

    def writer(self, run: Run) -> tuple[str, ...]:
        """`run`, under the tracer where its syncs are traced."""
        del run
        argv = self.argv("run")
        if not self._traced:
            return argv
        return traced(argv, DIR, self.settings.dropped_sync)

    def reader(self, run: Run) -> tuple[str, ...]:
        del run
        return self.argv("check")

    def continuation(self, run: Run, records: int) -> GoingOn:
        """`run` once more, in its own time; a check that sees POWERCUT_AFTER adds nothing."""
        del run
        seconds = self.recovery_s * _GOES_ON_SHARE
        return GoingOn(self.argv("run"), seconds, (f"POWERCUT_AFTER={records}",))

    def control(self, kind: ControlKind) -> ProgramSettings:
        del kind
        once = {"node_cuts": ()} if "node_cuts" in type(self.settings).model_fields else {}
        return self.settings.model_copy(update=once)

    def unsynced(self) -> ProgramSettings:
        """The same program, its syncs dropped by the kernel that it runs in."""
        return self.settings.model_copy(update={"syncs": "dropped"})

    def promises_by_lines(self, packets: Sequence[Packet], cut_ns: int) -> ProgramPromises:
        """What it claimed before `cut_ns`.

        Where one call site was to be dropped, nothing follows if the tracer could not do that.
        """
        packets, proof = dated(packets)
        trace = read_trace(packets) if self._traced else None
        history = history_of(packets, cut_ns, tracer=trace.key if trace else "")
        if trace and self.settings.dropped_sync:
            doubts = list(trace.beyond)
            if not any(call.dropped for call in trace.calls):
                doubts.append("no call came from the site that was to be dropped")
            history = replace(history, trouble=(*history.trouble, *doubts))
        by_kernel = self._place.machine == UML
        stamped = by_kernel or (
            self._place.machine == LOOP and bool(packets) and all(one.stamped for one in packets)
        )
        told = None if stamped else proof
        return ProgramPromises(replace(history, by_receipt=not stamped, proof=told))

    def check_untouched(self, observation: Observation) -> tuple[Finding, ...]:
        """Its check must look at everything and find nothing: only `setup` has run."""
        return tuple(
            Finding.unknown(message) for message in doubts_before(sighting_of(observation))
        )

    def same(self, one: Observation, other: Observation) -> bool:
        return _named(one) == _named(other)

    def positive(
        self, promises: Promises, seen: Mapping[Whole, Observation]
    ) -> PositiveControl | None:
        """It has to find every operation that was acknowledged."""
        history = promises.requirements
        assert isinstance(history, OperationHistory), "a program promises a set of operations"
        return positive_control(frozenset(history.acked.tolist()), seen)


def _named(observation: Observation) -> tuple[object, ...]:
    seen = sighting_of(observation)
    wrong = frozenset(number for number, _ in seen.wrong)
    looked = (observation.recovered, observation.complete, bool(seen.bad), bool(seen.incomplete))
    return merged_ranges(seen.present), wrong, looked


# When a program in a virtual machine wrote its lines.
#
# Each packet has the guest's clock of the moment in which it was read in the guest, after it was
# written.  crash/clock.py bounds what this host's clock, which is the disk's, read then: by the
# receipts of packets, and by pings.  As for other acks (crash/dating.py) the latest instant counts:
# the line was written then or earlier, so that what was not durable by then was not durable when it
# was acknowledged.  A receipt that a busy host delayed does not count any more.
#
# Attempts are not dated: one counts for the whole run, as one that was under way at the cut is not
# known.  Where the clocks contradict each other, nothing ties them, or a packet has no clock, all
# count from their receipt.

NO_CLOCK: Final = "the program's lines carry no clock"

_ACK: Final = re.compile(rb"(?:^|\n)\+ ")


def dated(packets: Sequence[Packet]) -> tuple[tuple[Packet, ...], AckProof]:
    """The packets that hold lines, at their instants on the disk's clock; what that rests on."""
    _, latest, proof = bounded(packets)
    return latest, proof


def bounded(
    packets: Sequence[Packet],
) -> tuple[tuple[Packet, ...], tuple[Packet, ...], AckProof]:
    """Those packets at the earliest instants at which they can have been written, at the latest,
    and what that rests on: by receipt nothing is known of the earliest, and both are the same.
    """
    said = tuple(one for one in packets if one.sent_ns is None)
    trips = [one for one in packets if one.sent_ns is not None]
    stamps = _column(one.guest_ns for one in said)
    if not said or any(not one.guest_ns for one in said):
        return said, said, _by_receipt(NO_CLOCK)
    if not trips:
        return said, said, _by_receipt(NO_ROUND_TRIPS)
    receipts = _column(one.at_ns for one in said)
    at_trips = _column(one.guest_ns for one in trips)
    before = Points.join(
        Points(stamps, receipts), Points(at_trips, _column(one.at_ns for one in trips))
    )
    try:
        if (np.diff(stamps) < 0).any():
            raise ClocksDisagree("the guest's clock went back")
        bounds = bound_clock(before, Points(at_trips, _column(one.sent_ns for one in trips)))
    except ClocksDisagree as error:
        return said, said, _by_receipt(str(error))
    latest = np.minimum(receipts, bounds.latest(stamps))
    earliest = np.minimum(latest, bounds.earliest(stamps))
    acks = np.array([_ACK.search(one.data) is not None for one in said])
    window, gained = (latest - earliest)[acks], (receipts - latest)[acks]
    proof = AckProof(
        AckBasis.CLOCK,
        window_ns=int(window.max(initial=0)),
        usual_window_ns=int(np.median(window)) if len(window) else 0,
        gained_ns=int(gained.max(initial=0)),
        shortest_sync_ns=None,
    )
    return _at(said, earliest), _at(said, latest), proof


def _at(packets: Sequence[Packet], instants: npt.NDArray[np.int64]) -> tuple[Packet, ...]:
    return tuple(replace(one, at_ns=at) for one, at in zip(packets, instants.tolist(), strict=True))


def _by_receipt(reason: str) -> AckProof:
    return AckProof(AckBasis.RECEIPT, None, None, 0, None, reason=reason)


def _column(values: Iterable[int | None]) -> npt.NDArray[np.int64]:
    return np.fromiter((value or 0 for value in values), dtype=np.int64)


# The program that a command line means where it was typed.


def find_program(command: Sequence[str], *, inside: bool = False) -> ProgramSettings:
    """The settings of the program that `command` names, seen from the working directory.

    A name without a slash is looked up in PATH, as a shell does; `inside` a root of its own an
    absolute path is not looked for here.  Raises UsageError if it is no program.
    """
    name = command[0]
    if inside and name.startswith("/"):
        return ProgramSettings(kind="program", command=tuple(command), folder=str(Path.cwd()))
    path = shutil.which(name)
    if path is None:
        why = "is not executable" if Path(name).is_file() else "there is no such program"
        raise UsageError(
            f"{name}: {why}",
            hint="give the path of an executable with the verbs setup, run and check",
        )
    program = name if "/" in name else str(Path(path).absolute())
    return ProgramSettings(kind="program", command=(program, *command[1:]), folder=str(Path.cwd()))
