# SPDX-License-Identifier: Apache-2.0
"""Measures one cell: what its commits send, what each layer makes of it, and what it costs.

The cell's own machine, disk and workload; but the workload ends on its own, and no power is cut.
A guest runs a few commits to warm up, everybody becomes quiet, and every layer is asked for its
counts.  Then come the measured commits, quiet again, and the same questions: what lies between
belongs to those commits at every layer.  After that the disk takes, one after the other, the
latencies of the disks that the cost is wanted for, and the workload continues for a while on each.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from powercut.channel.port import Channel, CommandResult
from powercut.disk.backing import ensure_backing_image
from powercut.disk.capture import CaptureDisk
from powercut.disk.image_format import ensure_formatted_image
from powercut.disk.pclog import read_timeline
from powercut.machine.port import CountsRequests, Machine, RequestTotals
from powercut.model.binding import Binding
from powercut.model.errors import HostError, PowercutError
from powercut.model.history import History, LatencyHistogram, upper_edge_ns
from powercut.model.machine import BackingImage, Bus
from powercut.rig import commands
from powercut.rig.commands import run_id_of
from powercut.rig.rig import Rig
from powercut.rig.scratch import scratch
from powercut.rig.set_up import Deadline, guest_command, mount_disk, prepare_disk
from powercut.scenario.choices import DiskModel
from powercut.scenario.plan import Cell
from powercut.scenario.settings import (
    FLUSH_LATENCY_NS,
    GuestWriteCache,
    Parameters,
    SyncMode,
    wal_settings,
)
from powercut.store.files import host_errors, write_atomic
from powercut.store.trial_result import Latency
from powercut.workload.wal.commands import write_arguments
from powercut_extras.certify.measure import log as measure_log
from powercut_extras.certify.measure.trace import (
    GuestSnapshot,
    GuestTrace,
    asked_between,
    issued_between,
)
from powercut_extras.certify.measure.wire import Layers, flush_ends_at
from powercut_extras.certify.measurement import Cost, Measurement, RequestCounts, WireAccount

COMMITS: Final = 200
"""Commits that are measured by default."""

MEASUREMENT_FILE: Final = "measurement.json"

_WARM_UP: Final = 8
_SLOW_DISK_S: Final = 0.4
"""About how long a slow disk is waited for: fewer commits are measured on it."""
_COMMITS_MIN: Final = 20

_QUIET_S: Final = 5.0
_QUIET_POLL_S: Final = 0.002
_GRACE_S: Final = 10.0


def measure_cell(
    rig: Rig,
    scenario: str,
    cell: Cell,
    directory: Path,
    models: Sequence[DiskModel] = (),
    commits: int = COMMITS,
) -> Measurement:
    """Measures `cell` and leaves the evidence and measurement.json in `directory`, a new folder.

    The wire account is taken on a disk without latency; `models` are the disks whose cost is
    wanted.  `commits` are measured on each, fewer where a disk is slow or the log is full before.
    What goes wrong is in the measurement's `trouble`.  Raises HostError only if the evidence
    cannot be written.
    """
    with host_errors(directory):
        directory.mkdir(parents=True)
    run = _Run(rig, cell, directory, tuple(models), commits)
    try:
        run.make()
    except PowercutError as error:
        run.trouble.append(f"{error}" + (f" ({error.hint})" if error.hint else ""))
    measurement = Measurement(
        scenario=scenario,
        cell=cell.name,
        parameters=cell.parameters,
        wire=run.wire,
        costs=tuple(run.costs),
        trouble="; ".join(dict.fromkeys(run.trouble)),
    )
    text = measurement.model_dump_json(indent=1) + "\n"
    write_atomic(directory / MEASUREMENT_FILE, text.encode())
    return measurement


@dataclass(frozen=True)
class _Snapshot:
    """What every layer had counted at a moment at which nothing was going on."""

    guest: GuestSnapshot
    hypervisor: RequestTotals | None


@dataclass(frozen=True)
class _Phase:
    """A stretch of commits: its records, and the latencies that the workload reported."""

    first_lsn: int
    last_lsn: int
    latency: LatencyHistogram
    model: DiskModel


@dataclass
class _Guest:
    """A guest that is ready to commit, and what its commits are counted with."""

    machine: Machine
    channel: Channel
    disk: CaptureDisk
    trace: GuestTrace
    facts: dict[str, str] = field(default_factory=dict)


class _Run:
    """One measurement while it is made."""

    def __init__(
        self, rig: Rig, cell: Cell, directory: Path, models: tuple[DiskModel, ...], commits: int
    ) -> None:
        self.rig = rig
        self.parameters = cell.parameters
        self.directory = directory
        self.models = models
        self.commits = commits
        self.run_id = run_id_of(cell.trials[0].seed if cell.trials else 0)
        self.deadline = Deadline(cell.parameters.deadline / 1e9)
        self.wire: WireAccount | None = None
        self.costs: list[Cost] = []
        self.trouble: list[str] = []
        self._next_lsn = 1
        self._below: Path | None = None

    def make(self) -> None:
        """Boots, measures, reads what the layers have to say."""
        parameters = self.parameters
        cache, plain = self.rig.cache, commands.base_image(parameters)
        base = ensure_formatted_image(plain, commands.image_format(parameters), cache)
        below = parameters.machine.backing_image
        if below is not BackingImage.NONE:
            log = commands.earlier_log(parameters)
            self._below = ensure_backing_image(plain, below, log, cache)
        with scratch() as sockets:
            config = commands.capture_config(
                parameters,
                Binding(self.run_id),
                base=base,
                log=self.directory / "disk",
                sockets=sockets,
            )
            with CaptureDisk(config) as disk, self._guest(disk, sockets) as guest:
                self._commit(guest, _WARM_UP, DiskModel.NONE)
                before = self._quiet(guest)
                disk.mark(measure_log.BEGIN)
                counted = self._commit(guest, self.commits, DiskModel.NONE)
                after = self._quiet(guest)
                disk.mark(measure_log.END)
                phases = self._cost_phases(guest, counted)
                guest.machine.kill(timeout_s=self.deadline.at_least(_GRACE_S))
                history = guest.channel.drain(timeout_s=self.deadline.at_least(_GRACE_S))
        self._write_evidence(before, after)
        bound = wal_settings(parameters).streams == 1 and parameters.disk.volatile_cache
        self.costs = [_cost(phase, history, bound=bound) for phase in phases]
        self.wire = self._account(guest, counted, history, before, after)

    @contextlib.contextmanager
    def _guest(self, disk: CaptureDisk, sockets: Path) -> Iterator[_Guest]:
        folder = sockets / "run"
        folder.mkdir()
        spec = self.rig.machine_spec(self.parameters, disk.socket, backing=self._below)
        history = self.directory / "history.bin"
        backend = self.rig.backend_of(self.parameters)
        with backend.open(spec, folder, history=history) as (machine, channel):
            try:
                machine.start(timeout_s=self.deadline.remaining_s)
                channel.wait_hello(timeout_s=self.deadline.remaining_s)
                bus = self.parameters.machine.bus
                bios = bus is not Bus.VIRTIO_PMEM
                trace = GuestTrace(self._command(channel), bus.device, bios=bios)
                trace.start()
                guest = _Guest(machine, channel, disk, trace)
                disks, guest.facts = prepare_disk(channel, self.parameters, self.deadline)
                mount_disk(channel, self.parameters, disks, self.deadline)
                yield guest
            finally:
                write_atomic(self.directory / "console.txt", machine.diagnosis.encode())

    def _command(self, channel: Channel) -> Callable[..., tuple[str, ...]]:
        def run(*argv: str) -> tuple[str, ...]:
            return guest_command(channel, self.deadline, *argv).texts

        return run

    def _commit(self, guest: _Guest, commits: int, model: DiskModel) -> _Phase:
        """Lets the workload make about `commits` commits where it left off."""
        self.deadline.renew()
        latency_ns = FLUSH_LATENCY_NS[model]
        guest.disk.set_latency(latency_ns, latency_ns)
        workload = wal_settings(self.parameters)
        first, records = self._next_lsn, commits * workload.streams * workload.batch
        if workload.layout.bounded and workload.slots is not None:
            records = min(records, workload.slots - first + 1)
        if records < 1:
            raise HostError(
                f"the log is full after {first - 1:,} records: too few to measure",
                hint="raise `workload.capacity`, or measure fewer commits",
            )
        changed = self.parameters.model_copy(
            update={"workload": workload.model_copy(update={"records": records})}
        )
        arguments = write_arguments(changed, self.run_id, first_lsn=first)
        guest.channel.start("exec", *arguments)
        result: CommandResult = guest.channel.wait_done(timeout_s=self.deadline.remaining_s)
        if result.status or result.error or result.latency is None:
            why = result.error or f"it ended with status {result.status}"
            raise HostError(f"the workload failed: {why}")
        self._next_lsn = first + records
        return _Phase(first, self._next_lsn - 1, result.latency, model)

    def _quiet(self, guest: _Guest) -> _Snapshot:
        """Asks every layer, until none has anything new to say."""
        end = time.monotonic() + min(_QUIET_S, self.deadline.remaining_s)
        said = None
        while time.monotonic() < end:
            seen = guest.disk.statistics()
            snapshot = _Snapshot(guest.trace.snapshot(), self._ask_hypervisor(guest))
            now = (seen, snapshot.guest, _requests(snapshot.hypervisor))
            if now == said:
                return snapshot
            said = now
            time.sleep(_QUIET_POLL_S)
        raise HostError(
            f"the guest had not become quiet {_QUIET_S:g} s after its commits",
            hint="something besides the workload writes to the disk",
        )

    def _ask_hypervisor(self, guest: _Guest) -> RequestTotals | None:
        """None where nothing counts: of a disk that is memory to the hypervisor, for example."""
        if self.parameters.machine.bus.pmem or not isinstance(guest.machine, CountsRequests):
            return None
        return guest.machine.requests(timeout_s=self.deadline.remaining_s)

    def _cost_phases(self, guest: _Guest, counted: _Phase) -> list[_Phase]:
        """Commits on each kind of disk; what was counted serves for the one without latency."""
        phases = []
        for model in dict.fromkeys(self.models):
            latency_s = FLUSH_LATENCY_NS[model] / 1e9
            commits = self.commits
            if latency_s:
                commits = min(commits, max(int(_SLOW_DISK_S / latency_s), _COMMITS_MIN))
            try:
                none = model is DiskModel.NONE
                phases.append(counted if none else self._commit(guest, commits, model))
            except PowercutError as error:
                # What was counted is worth having without the rest.
                self.trouble.append(f"no cost on {model.value}: {error}")
                break
        return phases

    def _write_evidence(self, before: _Snapshot, after: _Snapshot) -> None:
        """What the layers above the disk said; the disk's log is there already."""
        for name, snapshot in (("before", before), ("after", after)):
            text = "\n".join(snapshot.guest.texts)
            write_atomic(self.directory / f"trace-{name}.txt", text.encode())
        counted = {"before": before.hypervisor, "after": after.hypervisor}
        said = {when: dict(totals.raw) if totals else None for when, totals in counted.items()}
        text = json.dumps(said, indent=1, sort_keys=True) + "\n"
        write_atomic(self.directory / "blockstats.json", text.encode())

    def _account(
        self, guest: _Guest, counted: _Phase, history: History, before: _Snapshot, after: _Snapshot
    ) -> WireAccount:
        disk = measure_log.account(read_timeline(self.directory / "disk", verify_payloads=False))
        self.trouble += guest.trace.unknown
        commits = _acks(counted, history)
        records = counted.last_lsn - counted.first_lsn + 1
        layers = Layers(
            commits=commits,
            syncs=_syncs(self.parameters, commits),
            committed_bytes=records * wal_settings(self.parameters).record,
            asked=asked_between(before.guest, after.guest),
            # Drivers of memory take bios: there is no queue, and so nothing is issued from it.
            guest=None
            if self.parameters.machine.bus.pmem
            else issued_between(before.guest, after.guest),
            hypervisor=_hypervisor(before.hypervisor, after.hypervisor),
            disk=disk.counts,
            uncovered=disk.uncovered,
            not_durable=disk.not_durable,
            write_through=guest.facts.get("write_cache") == "write through",
            told=self.parameters.machine.guest_write_cache is not GuestWriteCache.WRITE_THROUGH,
        )
        ends_at, because = flush_ends_at(layers)
        return WireAccount(
            commits=commits,
            committed_bytes=layers.committed_bytes,
            asked=layers.asked,
            guest=layers.guest,
            hypervisor=layers.hypervisor,
            disk=layers.disk,
            uncovered=layers.uncovered,
            not_durable=layers.not_durable,
            flush_ends_at=ends_at,
            because=because,
        )


def _syncs(parameters: Parameters, commits: int) -> int:
    """In how many commits the workload asks for durability."""
    workload = wal_settings(parameters)
    if workload.sync is SyncMode.NONE:
        return 0
    fault, _, number = workload.plant.partition(":")
    return commits - commits // int(number) if fault == "skip-sync" else commits


def _requests(totals: RequestTotals | None) -> tuple[int, ...]:
    return (totals.writes, totals.flushes, totals.written_bytes) if totals else ()


def _hypervisor(before: RequestTotals | None, after: RequestTotals | None) -> RequestCounts | None:
    """What the device got from its guest; it is unknown which writes had FUA."""
    if before is None or after is None:
        return None
    return RequestCounts(
        writes=after.writes - before.writes,
        fua_writes=None,
        flushes=after.flushes - before.flushes,
        written_bytes=after.written_bytes - before.written_bytes,
    )


def _acks(phase: _Phase, history: History) -> int:
    """Commits of a stretch: its acks, each of which may be for several records."""
    lsn = history.ack_lsn
    return int(((lsn >= phase.first_lsn) & (lsn <= phase.last_lsn)).sum())


def _cost(phase: _Phase, history: History, *, bound: bool) -> Cost:
    """What the commits of a stretch cost, by the guest's own clock.

    It is `bound` by what the medium can do if one stream waits for a volatile cache to be
    written out: several overlap, and without such a cache plain writes are durable, which
    the models let through at once.
    """
    attempts = (history.attempt_lsn >= phase.first_lsn) & (history.attempt_lsn <= phase.last_lsn)
    acks = (history.ack_lsn >= phase.first_lsn) & (history.ack_lsn <= phase.last_lsn)
    if not attempts.any() or not acks.any():
        raise HostError("the workload acknowledged nothing")
    began = int(history.attempt_guest_ns[attempts].min())
    seconds = (int(history.ack_guest_ns[acks].max()) - began) / 1e9
    commits, buckets = int(acks.sum()), enumerate(phase.latency.buckets)
    latency_ns = FLUSH_LATENCY_NS[phase.model]
    return Cost(
        disk=phase.model,
        commits=commits,
        seconds=round(seconds, 6),
        commits_per_s=round(commits / seconds, 1),
        latency=Latency.of(phase.latency),
        histogram=tuple((upper_edge_ns(bucket) / 1000, n) for bucket, n in buckets if n),
        medium_limit_per_s=round(1e9 / latency_ns, 1) if latency_ns and bound else None,
    )
