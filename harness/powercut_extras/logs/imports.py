# SPDX-License-Identifier: Apache-2.0
"""Recordings made of a foreign dm-log-writes or blklogwrites log.

    DIR/import.json   what the log is, and how the records in it lie (sealed)
        base.img      the disk as it was when logging began (sealed)
        log.dmlw      the log, as it was given (sealed)
        manifest.json the seal

Such a log has two readings (docs/formats/dm-log-writes.md).  States are taken from the
certain one: each of them was legal without a doubt.  What a record's exposure is worth:

1. exposed under the certain reading, and the log has no doubts: LOSSY;
2. exposed under neither reading, in a whole log without doubts, on a raw device:
   SAFE.  With a file system between, the bytes of the records are safe and whether
   the file still leads to them is unknown without recovery: INCONCLUSIVE;
3. everything else: INCONCLUSIVE; also a log in which nothing was acknowledged, and one
   in which no record of the run is found, since the run id or the layout may be wrong.

Instants of such a recording keep the order of the log and are no times.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict

from powercut import __version__
from powercut.brought import mark_results
from powercut.crash.exposure import exposure
from powercut.model.contract import Honour
from powercut.model.errors import UsageError
from powercut.model.exposure import ranges_of
from powercut.model.history import History
from powercut.model.timeline import RequestKind, Requests, Timeline
from powercut.model.units import NEVER, Instant
from powercut.model.verdict import LsnRange, Verdict
from powercut.recording.disk import DiskRecording
from powercut.recording.disk_places import FilesystemName, filesystem_of
from powercut.recover.plan import RecoveryPlan
from powercut.rig import commands
from powercut.store.files import copy_sparse, host_errors, write_atomic
from powercut.store.record import read_model
from powercut.store.trial_dir import IMPORT_FILE, TrialDir
from powercut.wal.layout import LayoutKind, WalLayout
from powercut.workload.port import MOUNT_POINT
from powercut.workload.wal.commands import CHANNEL_IN_GUEST, WAL_IN_GUEST
from powercut_extras.logs.checks import LogChecks, filesystem_to_check
from powercut_extras.logs.logs import Dialect, Flag, Imported, import_log
from powercut_extras.logs.marks import Marks, checked_log

FORMAT: Final = "powercut-import/1"
LOG: Final = "log.dmlw"


class LogLayout(BaseModel):
    """How the records of a WAL workload lie in the logged disk.

    `path` is that of the log below the root of its file system, or of the folder of its
    segments; it means nothing for a raw log.  Sizes are bytes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run_id: str
    layout: str
    record: int = 512
    align: int = 0
    capacity: int = 0
    segment: int = 0
    offset: int = 0
    path: str = "log"

    def wal(self) -> WalLayout:
        """The layout; raises UsageError for one that no log can have."""
        try:
            kind = LayoutKind(self.layout)
        except ValueError as error:
            known = ", ".join(kind.value for kind in LayoutKind)
            raise UsageError(f"layout {self.layout!r}: there is none", hint=known) from error
        return WalLayout(
            kind, self.record, self.align, self.capacity, self.segment, offset=self.offset
        )

    def arguments(self, path: str) -> tuple[str, ...]:
        """What the log reader must be told."""
        sizes = {
            "capacity": self.capacity,
            "segment": self.segment,
            "offset": self.offset,
        }
        return (
            f"run_id={self.run_id}",
            f"layout={self.layout}",
            f"path={path}",
            f"record={self.record}",
            f"align={self.align}",
            *(f"{key}={value}" for key, value in sizes.items() if value),
        )

    def run(self) -> bytes:
        try:
            value = bytes.fromhex(self.run_id)
        except ValueError:
            value = b""
        if len(value) != 16:
            raise UsageError(f"run id {self.run_id!r}: a run id has 32 hexadecimal digits")
        return value


class ImportRecord(BaseModel):
    """import.json."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["powercut-import/1"] = FORMAT
    powercut: str
    source: str  # the name of the log file that was imported
    dialect: Literal["kernel", "qemu"]
    atomic_unit: int = 512
    salvage: bool = False
    closed: bool = False
    no_fua: bool = False
    filesystem: FilesystemName = ""
    log: LogLayout | None = None
    checks: LogChecks | None = None


@dataclass(frozen=True)
class ImportReport:
    """What an imported log says.

    `exposed` is certain; `perhaps` is exposed under the cautious reading alone.
    """

    record: ImportRecord
    entries: int
    writes: int
    flushes: int
    fua_writes: int
    marks: tuple[str, ...]
    acked: int
    complete: bool
    doubts: tuple[str, ...]
    exposed: tuple[LsnRange, ...]
    perhaps: tuple[LsnRange, ...]
    verdict: Verdict
    reasons: tuple[str, ...]

    @property
    def named_marks(self) -> tuple[str, ...]:
        """The marks, if a check is asked for them by their names, or nothing else is."""
        checks = self.record.checks
        return () if checks is None or checks.program else self.marks


def import_recording(
    log: Path,
    *,
    base: Path,
    output: Path,
    dialect: Dialect = Dialect.AUTO,
    layout: LogLayout | None = None,
    checks: LogChecks | None = None,
    filesystem: str = "",
    atomic_unit: int = 512,
    salvage: bool = False,
    closed: bool = False,
    no_fua: bool = False,
) -> TrialDir:
    """Makes a sealed recording of the log in the new folder `output`.

    Its states are mounted and asked for `checks`, if there are any; then `filesystem` says what is
    on the base image, if it does not say so itself.

    Raises UsageError if `output` is there already, DamagedRecording for a damaged log
    (naming the entry), and what `import_log` raises.
    """
    if output.exists():
        raise UsageError(f"{output}: exists already", hint="give the name of a new folder with -o")
    imported = import_log(
        log,
        base=base,
        dialect=dialect,
        atomic_unit=atomic_unit,
        salvage=salvage,
        closed=closed,
        no_fua=no_fua,
    )
    if layout is not None:  # a mistake is told before anything is made
        layout.wal()
        layout.run()
    found = filesystem_of(base)
    if checks is not None:
        found = filesystem_to_check(base, found, filesystem)
        checks = checks.with_versions(found)
    record = ImportRecord(
        powercut=__version__,
        source=log.name,
        dialect="kernel" if imported.log.dialect is Dialect.KERNEL else "qemu",
        atomic_unit=atomic_unit,
        salvage=salvage,
        closed=closed,
        no_fua=no_fua,
        filesystem=found,
        log=layout,
        checks=checks,
    )
    with host_errors(output):
        output.mkdir(parents=True)
        mark_results(output)
        try:
            # Copies: the originals may change.
            copy_sparse(base, output / "base.img")
            copy_sparse(log, output / LOG)
            text = record.model_dump_json(indent=1)
            write_atomic(output / IMPORT_FILE, text.encode() + b"\n")
            directory = TrialDir(output.resolve(), output.resolve())
            directory.seal_recording()
            open_import(directory)
        except BaseException:
            shutil.rmtree(output, ignore_errors=True)
            raise
    return directory


def as_kept(timeline: Timeline) -> Timeline:
    """The timeline without the flushes and FUA that its disk ignored.

    A log of requests has no word for a flush that did nothing: written as a flush, a
    replay up to it would hold what the disk had not kept.  So it becomes a mark, at which a
    replay can stop, too.  All that is asked for in the result was honoured.
    """
    requests, contract = timeline.requests, timeline.contract
    if contract.honest:
        return timeline
    flush = requests.kind == RequestKind.FLUSH
    ignored = flush & (contract.flush is Honour.IGNORED)
    fua = requests.fua & (contract.fua is Honour.HONOURED)
    numbers = np.cumsum(flush)
    done = np.flatnonzero(ignored & (requests.completed_ns != NEVER))
    marks = [
        (Instant(int(requests.completed_ns[index])), f"flush {numbers[index]}, ignored by the disk")
        for index in done.tolist()
    ]
    columns = {field.name: getattr(requests, field.name) for field in fields(requests)}
    kept = {name: rows[~ignored] for name, rows in columns.items() if rows is not None}
    kept["fua"] = fua[~ignored]
    return Timeline(
        disk_size=timeline.disk_size,
        contract=replace(contract, flush=Honour.HONOURED, fua=Honour.HONOURED),
        requests=Requests(**kept),
        data=timeline.data,
        marks=tuple(sorted([*timeline.marks, *marks])),
        complete=timeline.complete,
    )


def open_import(directory: TrialDir, *, cautious: bool = False) -> DiskRecording:
    """The recording that was imported into `directory`, under its certain reading.

    With `cautious`, under the other one.

    Raises DamagedRecording.
    """
    record = read_import(directory)
    return _recording(directory, record, _read_log(directory, record), cautious=cautious)


def _recording(
    directory: TrialDir, record: ImportRecord, imported: Imported, *, cautious: bool
) -> DiskRecording:
    layout, checks = record.log, record.checks
    known = DiskRecording(
        directory=directory,
        title=f"{record.source}, a {record.dialect} log",
        base=directory.base_image,
        filesystem=record.filesystem,
        timeline=imported.cautious if cautious else imported.certain,
        history=_history(imported.history),
        run_id=layout.run() if layout else bytes(16),
        layout=layout.wal() if layout else None,
        plan=_plan(record.filesystem, layout) if layout else None,
        imported=True,
        gaps=_gaps(imported),
        doubts=imported.log.doubts,
    )
    return known if checks is None else checked_log(known, checks, imported.history)


def read_import(directory: TrialDir) -> ImportRecord:
    """Reads import.json; raises DamagedRecording."""
    return read_model(directory.path / IMPORT_FILE, ImportRecord)


def report_import(directory: TrialDir) -> ImportReport:
    """What the log in `directory` says; changes nothing.  Raises DamagedRecording."""
    record = read_import(directory)
    imported = _read_log(directory, record)
    requests = imported.certain.requests
    flush = requests.kind == RequestKind.FLUSH
    certain: tuple[LsnRange, ...] = ()
    perhaps: tuple[LsnRange, ...] = ()
    unknown = True
    seen = False
    if record.log is not None:
        known, cautious = (
            _recording(directory, record, imported, cautious=which).evidence
            for which in (False, True)
        )
        seen = bool(len(known.runs))
    if seen:
        sure, careful = exposure(known), exposure(cautious)
        certain = sure.exposed_lsns
        only = careful.exposed & ~sure.exposed
        perhaps = ranges_of(careful.lsn[only])
        unknown = not bool(sure.known.all() and careful.known.all())
    if record.log is not None and imported.history.acked and not seen:
        foreign = "no record of this run is in the log: the run id or the layout may be wrong"
        verdict, reasons = Verdict.INCONCLUSIVE, (foreign, *_gaps(imported))
    else:
        verdict, reasons = _verdict(imported, record, bool(certain), bool(perhaps), unknown)
    return ImportReport(
        record=record,
        entries=len(imported.log),
        writes=int((~flush).sum()),
        flushes=int(flush.sum()),
        fua_writes=int(imported.log.has(Flag.FUA).sum()),
        marks=Marks.of(imported.certain).names,
        acked=imported.history.acked,
        complete=imported.log.complete,
        doubts=imported.log.doubts,
        exposed=certain,
        perhaps=perhaps,
        verdict=verdict,
        reasons=reasons,
    )


def _verdict(
    imported: Imported, record: ImportRecord, certain: bool, perhaps: bool, unknown: bool
) -> tuple[Verdict, tuple[str, ...]]:
    """The rules at the head of this file."""
    gaps = list(_gaps(imported))
    if record.log is None and record.checks is None:
        gaps.append(
            "nothing can be judged: import it again with --filesystem, which mounts and checks "
            "each state, with --check, or, if powercut's own workload has written it, with --layout"
        )
    elif record.log is not None and not imported.history.acked:
        gaps.append("nothing was acknowledged: the log has no mark `ack N`")
    elif record.log is not None and unknown:
        gaps.append("the log ends too early to tell of every record")
    if certain and not imported.log.doubts:
        return Verdict.LOSSY, ("records were acknowledged before they were durable",)
    if perhaps or certain:
        gaps.append("under one reading of the log records were acknowledged too early")
    if record.filesystem and record.log is not None:
        gaps.append("whether the file system leads to the records is known after recovery only")
    return (Verdict.INCONCLUSIVE if gaps else Verdict.SAFE), tuple(gaps)


def _gaps(imported: Imported) -> tuple[str, ...]:
    gaps = list(imported.log.doubts)
    if not imported.log.complete:
        gaps.append("the log was not closed properly: later entries may be missing")
    return tuple(gaps)


def _history(history: History) -> History:
    """Where a log tells of no attempts, what was acknowledged was attempted no later.

    What was attempted and never acknowledged is seen in the writes themselves.
    """
    if history.facts.get("attempts") != "unknown":
        return history
    return replace(
        history,
        attempt_lsn=history.ack_lsn,
        attempt_ns=history.ack_ns,
        attempt_guest_ns=history.ack_guest_ns,
    )


def _read_log(directory: TrialDir, record: ImportRecord) -> Imported:
    return import_log(
        directory.path / LOG,
        base=directory.base_image,
        dialect=Dialect(record.dialect),
        atomic_unit=record.atomic_unit,
        salvage=record.salvage,
        closed=record.closed,
        no_fua=record.no_fua,
    )


def _plan(filesystem: str, layout: LogLayout) -> RecoveryPlan:
    raw = layout.wal().kind is LayoutKind.RAW
    inside = layout.path.lstrip("/")
    path = f"/dev/{commands.DEVICE}" if raw else f"{MOUNT_POINT}/{inside}"
    return RecoveryPlan.of(
        filesystem="" if raw else filesystem,
        mount_options="",
        mount_point=MOUNT_POINT,
        reader=(WAL_IN_GUEST, "read", *layout.arguments(path), CHANNEL_IN_GUEST),
    )
