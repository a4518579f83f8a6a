# SPDX-License-Identifier: Apache-2.0
"""The evidence of a trial, each file read and checked once, and nothing but that of this trial.

Disk log, recovery's log and history name the recording that they belong to, as does the
observation (powercut.store.layout); trial.json says which that is, under the seal.  A file of
another recording is refused, whatever its own checksums say.  The header of a log names the
contract that its disk kept, too: it has to be the one that the settings asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from powercut.channel.history_file import RecordedHistory, history_of
from powercut.channel.lines import unpack
from powercut.disk.pclog import host_failures, read_timeline
from powercut.disk.pclog_format import LogHeader, data_path, header_of, log_path
from powercut.model.binding import Binding, check_digest
from powercut.model.contract import CutKind, DeviceContract
from powercut.model.errors import DamagedRecording, UsageError
from powercut.model.history import History
from powercut.model.machine import BackingImage
from powercut.model.named_path import openable
from powercut.model.observation import Observation
from powercut.model.operations import Packet
from powercut.model.positive import PositiveControl, Whole
from powercut.model.timeline import DiskRange, Timeline
from powercut.model.units import NEVER
from powercut.model.verdict import EvidenceLevel
from powercut.recording.disk import DiskRecording, RecordedSystem
from powercut.recover.plan import RecoveryPlan
from powercut.rig import commands
from powercut.scenario.place import place_of
from powercut.scenario.settings import ControlKind, Parameters
from powercut.store.packed import evidence_bytes, has_evidence
from powercut.store.trial_dir import TrialDir, TrialRecord, read_observation, text_digest
from powercut.workload.port import AcksByLines, AcksByWire, Promises, Recognised, Run, Workload
from powercut.workload.table import workload_of

if TYPE_CHECKING:
    from powercut.crash.evidence import Evidence

_NO_PROMISES: Final = frozenset({"flush_latency_ns", "fua_latency_ns"})
"""What a contract says besides what it promises: how long things take is on the log's clock."""

_HINT: Final = "put back the files that were recorded together, or record again"


class SealedTrial:
    """What lies in the folder of a trial.  Each part is read when it is asked for, and kept.

    A part that cannot be read, or is of another recording, raises DamagedRecording, each time.
    """

    def __init__(
        self, directory: TrialDir, *, verify_payloads: bool = True, cut_ns: int | None = None
    ) -> None:
        """Reads nothing.  What only draws need not `verify_payloads` of the disk's log; `cut_ns`
        is that of a run in progress, whose record does not say it yet.
        """
        self.directory = directory
        self._verify_payloads = verify_payloads
        self._cut_ns = cut_ns

    @cached_property
    def record(self) -> TrialRecord:
        return self.directory.read_record()

    @property
    def parameters(self) -> Parameters:
        return self.record.parameters

    @cached_property
    def workload(self) -> Workload:
        """That of its settings."""
        return workload_of(self.parameters)

    @cached_property
    def binding(self) -> Binding:
        """What its evidence has to be bound to."""
        return self.directory.read_binding()

    @property
    def is_live(self) -> bool:
        """Whether the disk was not recorded: only the cut itself can be judged."""
        return self.record.evidence_level is EvidenceLevel.LIVE_ONLY

    @cached_property
    def disk_log(self) -> Timeline:
        """The log of the run.  Raises UsageError for a trial whose disk was not recorded."""
        return self._log(self.directory.disk_log, verify_payloads=self._verify_payloads)

    @cached_property
    def recovery_log(self) -> Timeline:
        """The log of what followed the cut; else as `disk_log`."""
        return self._log(self.directory.recovery_log, verify_payloads=True)

    @cached_property
    def acks(self) -> RecordedHistory:
        """What was acknowledged by wire."""
        path = self.directory.history
        recorded = history_of(path, evidence_bytes(path).tobytes())
        check_digest(path, recorded.digest, self.binding)
        return recorded

    @cached_property
    def lines(self) -> tuple[Packet, ...]:
        """What a program said."""
        path = self.directory.lines
        try:
            return unpack(evidence_bytes(path).tobytes(), self.binding)
        except DamagedRecording as error:
            raise DamagedRecording(f"{path}: {error}") from error

    @cached_property
    def observation(self) -> Observation:
        """What came back after the cut."""
        return self._seen(self.directory.observation)

    @cached_property
    def untouched(self) -> Observation:
        """What a program's check found on the disk on which only `setup` has run."""
        return self._seen(self.directory.untouched)

    @cached_property
    def issued(self) -> Observation | None:
        """What it found with everything that was issued before the cut; None if not needed."""
        return self._seen(self.directory.issued) if self.directory.issued.exists() else None

    @cached_property
    def ended(self) -> Observation | None:
        """What it found after a run that ended without a cut; None if not needed."""
        return self._seen(self.directory.ended) if self.directory.ended.exists() else None

    @cached_property
    def promises(self) -> Promises:
        """What was claimed.

        Of a machine whose loss of power is not observed, all counts that has come.
        """
        if isinstance(self.workload, AcksByLines):
            cut_ns = self.record.cut_ns if self._cut_ns is None else self._cut_ns
            until = int(NEVER) if self.is_live or cut_ns is None else cut_ns
            return self.workload.promises_by_lines(self.lines, until)
        assert isinstance(self.workload, AcksByWire), "each workload acknowledges in one way"
        run = Run(bytes.fromhex(self.record.run_id), self.record.trial.seed)
        timeline = under_cut(self.disk_log, self.parameters.cut.kind)
        return self.workload.promises_by_wire(run, timeline, self.acks.history)

    @property
    def evidence(self) -> Evidence:
        """The records found in the writes, of a workload that acknowledges by wire."""
        assert isinstance(self.promises, Recognised), "its bytes are known"
        return self.promises.evidence

    @cached_property
    def positive(self) -> PositiveControl | None:
        """What the check found where nothing was lost (powercut.model.positive); None where it need
        not, or where that cannot be known.

        What is damaged is told by its own reader, and shows nothing here.
        """
        workload, promises = self.workload, self.promises
        if not isinstance(workload, AcksByLines) or not self.needs_positive or not promises.acked:
            return None
        seen: dict[Whole, Observation] = {}
        with suppress(DamagedRecording):
            seen[Whole.CUT] = self.observation
        with suppress(DamagedRecording):
            if self.issued is not None:
                seen[Whole.ISSUED] = self.issued
        with suppress(DamagedRecording):
            if self.ended is not None:
                seen[Whole.ENDED] = self.ended
        return workload.positive(promises, seen)

    @property
    def needs_positive(self) -> bool:
        """Whether its check has to show that it sees.

        A control that must lose something need not: it is the cell's own check, which shows it
        there.  Nor on a machine that keeps its disk to itself, of which no other state can be
        looked at.
        """
        return not self.is_live and self.record.control in (None, ControlKind.HONEST)

    @cached_property
    def opened(self) -> TrialRecording:
        """The recording, for its crash states.  Raises as `open_trial`."""
        return opened(self)

    def forget_seen(self) -> None:
        """Looks anew for what checks have found, which was written since."""
        for name in ("observation", "untouched", "issued", "ended", "positive"):
            self.__dict__.pop(name, None)

    def check_level(self) -> None:
        """Raises DamagedRecording if the evidence is not of the level that the record says.

        The level follows from the settings, and was written down before the run: a disk log that
        is gone makes no recording live only, and one that lies there was recorded.
        """
        record, directory = self.record, self.directory
        level = place_of(record.parameters).evidence_level
        if record.evidence_level is not level:
            raise DamagedRecording(
                f"{directory.path / 'trial.json'}: it says that the evidence is "
                f"{record.evidence_level.value}, and that of {record.parameters.machine.backend} "
                f"is {level.value}",
                hint=_HINT,
            )
        if level is EvidenceLevel.LIVE_ONLY:
            prefixes = (directory.disk_log, directory.recovery_log)
            files = [file for prefix in prefixes for file in (log_path(prefix), data_path(prefix))]
            logs = [file for file in files if has_evidence(file)]
            if logs:
                raise DamagedRecording(
                    f"{logs[0]}: trial.json beside it says that no disk was recorded", hint=_HINT
                )

    def _log(self, prefix: Path, *, verify_payloads: bool) -> Timeline:
        self.check_level()
        if self.is_live:
            raise UsageError(
                f"{self.directory.path}: {self.parameters.machine.backend} does not record its "
                "disk, so that there are no requests and no crash states to look at: only its cut "
                "can be judged",
                hint="`powercut show` tells what the cut left",
            )
        contract = self.parameters.disk.contract()
        read = read_bound_log(prefix, self.binding, contract, verify_payloads=verify_payloads)
        return replace(read, disks=disks_of(self.parameters))

    def _seen(self, path: Path) -> Observation:
        return read_observation(path, self.binding)


def under_cut(timeline: Timeline, kind: CutKind) -> Timeline:
    """The timeline under the contract that counts for a cut of `kind`.

    One that leaves the power on takes no volatile cache, so what the disk had completed is as good
    as durable: neither a crash of the guest nor a kill of the hypervisor can convict a disk that
    lies.
    """
    if kind is CutKind.POWER_LOSS:
        return timeline
    return replace(timeline, contract=replace(timeline.contract, volatile_cache=False))


def doubts_of(
    timeline: Timeline, packets: Sequence[Packet] = (), damage: Sequence[str] = ()
) -> tuple[str, ...]:
    """What the host did to a program's recording; empty if nothing.

    A program may go wrong by that, and its claims by a clock that does: no loss in such a recording
    can be laid to the disk or the program.  `damage` is what the recorder says of itself.
    """
    doubts = [*damage]
    doubts += [
        f"I/O error on the host, below the disk under test: {why}"
        for why in host_failures(timeline)
    ]
    if not timeline.complete:
        doubts.append("the disk log was not closed: later requests are missing")
    instants = [packet.at_ns for packet in packets]
    if any(later < one for one, later in pairwise(instants)):
        doubts.append("the clock of the program's lines went back")
    if instants and instants[0] < timeline.start_ns:
        doubts.append("the program's lines are older than the disk: they are of another clock")
    return tuple(doubts)


def check_scenario(trial: TrialDir, record: TrialRecord, scenario: Path) -> None:
    """Raises DamagedRecording if `scenario` is not the one that the recording was made by."""
    try:
        digest = text_digest(openable(scenario).read_bytes())
    except OSError as error:
        raise DamagedRecording(f"{scenario}: {error.strerror}") from error
    if record.scenario_sha256 != digest:
        raise DamagedRecording(
            f"{scenario}: it is not the scenario that {trial.path} was recorded by",
            hint="put back the scenario that the run was made with",
        )


def read_bound_log(
    prefix: Path, binding: Binding, contract: DeviceContract, *, verify_payloads: bool
) -> Timeline:
    """The log named `prefix`, which must be that of the recording `binding`, of such a disk.

    Raises DamagedRecording.
    """
    path = log_path(prefix)
    contents = {file: evidence_bytes(file) for file in (path, data_path(prefix))}
    header = header_of(path, contents[path])
    _check_header(path, header, binding)
    _check_contract(path, header.contract, contract)
    return read_timeline(prefix, verify_payloads=verify_payloads, read=contents.__getitem__)


def disks_of(parameters: Parameters) -> tuple[DiskRange, ...]:
    """The disks that were captured as one; none if there was one."""
    return tuple(
        DiskRange(part.name, part.offset, part.offset + part.size, part.word)
        for part in parameters.disk.parts
    )


def _check_header(path: Path, header: LogHeader, binding: Binding) -> None:
    if header.binding.run_id != binding.run_id:
        raise DamagedRecording(
            f"{path}: it is the log of another run ({header.binding}), and trial.json beside it is "
            f"of {binding}",
            hint=_HINT,
        )
    check_digest(path, header.binding.digest, binding, str(header.binding))


def _check_contract(path: Path, kept: DeviceContract, wanted: DeviceContract) -> None:
    differing = [
        f"{name}: {_word(value)}, and {_word(getattr(wanted, name))}"
        for name, value in vars(kept).items()
        if name not in _NO_PROMISES and value != getattr(wanted, name)
    ]
    if not differing:
        return
    raise DamagedRecording(
        f"{path}: its disk kept another contract than the settings in trial.json ask for "
        f"({'; '.join(differing)})",
        hint=_HINT,
    )


def _word(value: object) -> str:
    return str(getattr(value, "value", value))


# A trial opened to look at its crash states.


@dataclass(frozen=True, kw_only=True)
class TrialRecording(DiskRecording):
    """The recording of a trial: what was run, and how its records lie, is known."""

    sealed: SealedTrial
    plan: RecoveryPlan

    @property
    def record(self) -> TrialRecord:
        return self.sealed.record

    def tearing_at(self, atomic_unit: int) -> TrialRecording:
        """The same on a disk that promises to write aligned blocks of so many bytes whole.

        Nothing of the recording depends on it but which crash states are legal.
        """
        contract = replace(self.timeline.contract, atomic_unit=atomic_unit)
        timeline = replace(self.timeline, contract=contract)
        if self.known_promises is not None:
            return replace(self, timeline=timeline)
        return replace(self, timeline=timeline, known_evidence=self.evidence)


def open_trial(trial: TrialDir) -> TrialRecording:
    """Loads the recording in `trial`.

    Raises DamagedRecording if disk log, history or trial.json cannot be read at all.
    """
    return SealedTrial(trial).opened


def opened(sealed: SealedTrial) -> TrialRecording:
    """The same of a trial whose files may have been read already."""
    record, path, log = sealed.record, sealed.directory.path, sealed.disk_log
    if failed := host_failures(log):
        raise DamagedRecording(
            f"{path}: I/O error on the host, below the disk under test "
            f"({'; '.join(failed)}): "
            "nothing follows from its crash states",
            hint="make room on the host, or look at its disk, and record again",
        )
    gaps = [record.trouble] if record.trouble else []
    if not log.complete:
        gaps.append("the disk log was not closed: later requests are missing")
    if isinstance(sealed.workload, AcksByLines):
        return _of_lines(sealed, gaps)
    recorded = sealed.acks
    if not recorded.complete:
        gaps.append("the history of acks was cut off: later ones may be missing")
    if recorded.history.error:
        gaps.append(f"the workload failed: {recorded.history.error}")
    _require_images(sealed)
    return recording_of(sealed, gaps)


def _of_lines(sealed: SealedTrial, gaps: list[str]) -> TrialRecording:
    _require_images(sealed)
    record, path, log = sealed.record, sealed.directory.path, sealed.disk_log
    if record.cut_ns is None or log.cut is None or int(log.cut.at) != record.cut_ns:
        raise DamagedRecording(f"{path}: the disk log is not that of this cut")
    if doubts := doubts_of(log, sealed.lines, record.damage):
        raise DamagedRecording(
            f"{path}: {'; '.join(doubts)}: nothing follows from its crash states",
            hint="look after the host, and record again",
        )
    return recording_of(sealed, [*gaps, *sealed.promises.gaps])


def recording_of(sealed: SealedTrial, gaps: Sequence[str] = ()) -> TrialRecording:
    """What was read, once nothing of it is in doubt; `gaps` is what is missing."""
    record, directory = sealed.record, sealed.directory
    run_id = bytes.fromhex(record.run_id)
    plan = commands.recovery_plan(record.parameters, run_id, record.trial.seed)
    recording = TrialRecording(
        directory=directory,
        title=f"{record.scenario}, {record.cell}, trial {record.trial.number}",
        base=directory.base_image,
        filesystem=plan.filesystem,
        timeline=under_cut(sealed.disk_log, record.parameters.cut.kind),
        history=History.nothing(),
        run_id=run_id,
        sealed=sealed,
        layout=None,
        plan=plan,
        image_format=record.parameters.machine.format,
        system=RecordedSystem(record.parameters, record.versions, record.program_files),
        gaps=tuple(gaps),
    )
    promises, control = sealed.promises, sealed.positive
    if isinstance(promises, Recognised):
        evidence = promises.evidence
        return replace(
            recording,
            timeline=evidence.timeline,
            history=evidence.history,
            layout=evidence.layout,
            known_evidence=evidence,
        )
    blind = "" if control is None or control.passed else control.message
    return replace(recording, known_promises=promises, blind=blind, positive=control)


def _require_images(sealed: SealedTrial) -> None:
    """Raises DamagedRecording unless the disk at power-on is there, with what it lies over."""
    directory = sealed.directory
    if not directory.base_image.is_file():
        raise DamagedRecording(f"{directory.base_image}: the disk at power-on is missing")
    overlay = sealed.parameters.machine.backing_image is not BackingImage.NONE
    if overlay and not directory.sealed_digest(directory.backing_image.name):
        raise DamagedRecording(f"{directory.backing_image}: what the image lies over is not sealed")
