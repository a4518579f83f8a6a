# SPDX-License-Identifier: Apache-2.0
"""From a hosts file to a fleet that makes runs; and recordings that are fetched from it later."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from powercut.campaign.run import Run
from powercut.fleet.claims import FalseClaim, fetch, fetch_row, judge_again
from powercut.fleet.facts import RemoteOf, remote_of
from powercut.fleet.fleet import SILENCE_S, Fleet
from powercut.fleet.hosts_file import HostSettings, read_hosts
from powercut.fleet.link import HostLink
from powercut.fleet.provision import prepare
from powercut.fleet.run import FLEET, FleetRun
from powercut.fleet.wheels import make_wheels
from powercut.model.errors import HostError, UsageError
from powercut.model.events import Notice, RunEvent
from powercut.rig.engine_shelf import EngineShelf
from powercut.store.layout import ResultDir, folder_name
from powercut.store.place import Place, read_place
from powercut.store.rows import Row
from powercut.store.trial_dir import TrialDir


@contextlib.contextmanager
def runs_on(
    path: Path, on_event: Callable[[RunEvent], None], remote_of: RemoteOf = remote_of
) -> Iterator[Callable[..., Run]]:
    """What makes runs on the hosts of the hosts file.  Raises what `ready_fleet` does."""
    with ready_fleet(path, on_event, remote_of) as fleet:
        yield partial(FleetRun, fleet)


@contextlib.contextmanager
def ready_fleet(
    path: Path, on_event: Callable[[RunEvent], None], remote_of: RemoteOf = remote_of
) -> Iterator[Fleet]:
    """The hosts of the hosts file, which are made ready first.

    Raises UsageError for a mistake in the file, HostError if no host can be made ready.
    """
    settings = read_hosts(path)
    house = make_wheels()
    reports = prepare(settings, house, remote_of=remote_of)
    for report in reports:
        if report.problem:
            on_event(Notice(f"{report.name} is not ready: {report.problem}."))
    if all(report.problem for report in reports):
        raise HostError(
            "no host of the fleet can be made ready: " + "; ".join(r.problem for r in reports),
            hint=next((report.hint for report in reports if report.hint), ""),
        )
    with Fleet(settings, house.digest, remote_of=remote_of) as fleet:
        yield fleet


def fetch_recordings(
    path: Path,
    hosts_file: Path,
    *,
    wanted: Callable[[TrialDir], bool] = lambda _: True,
    remote_of: RemoteOf = remote_of,
    on_event: Callable[[Notice], None] = lambda _: None,
) -> tuple[int, tuple[str, ...]]:
    """Fetches what is missing of a run from the hosts that made it, and judges each again.

    Returns how many came, and what is wrong with the others.  Raises UsageError, HostError.
    """
    run = ResultDir.open(path)
    hosts = {host.name: host for host in read_hosts(hosts_file)}
    version = make_wheels().digest
    links: dict[str, HostLink] = {}
    problems: list[str] = []
    came = 0
    with contextlib.ExitStack() as stack:
        shelf = stack.enter_context(EngineShelf())
        for trial, place, row in _missing(run):
            if not wanted(trial):
                continue
            try:
                if place.host not in links:
                    links[place.host] = _link(stack, hosts, place, version, remote_of)
                if row is None:
                    fetch(links[place.host], trial)
                else:
                    fetch_row(links[place.host], trial, place.folder, row)
                judge_again(trial, shelf)
                came += 1
                on_event(Notice(f"{trial.relative}: fetched from {place.host}, judged again."))
            except (HostError, FalseClaim) as error:
                problems.append(f"{trial.relative}: {error}")
    return came, tuple(problems)


def _missing(run: ResultDir) -> Iterator[tuple[TrialDir, Place, Row | None]]:
    """The recordings of a run that lie on other hosts.  Raises DamagedRecording."""
    for trial in run.trials():
        place = None if trial.kept else read_place(trial.path)
        if place is not None:
            yield trial, place, None
    rows = run.rows()
    if rows is None:
        return
    told = run.read_environment()[FLEET]["folder"]
    with rows:
        for cell in rows.cells:
            for row in rows.of_cell(cell):
                trial = run.place_of(cell, row.result.trial)
                if not trial.path.exists():
                    folder = f"{told}/{folder_name(row.host)}/{trial.relative}"
                    yield trial, Place(host=row.host, folder=folder, seconds=row.seconds), row


def _link(
    stack: contextlib.ExitStack,
    hosts: dict[str, HostSettings],
    place: Place,
    version: str,
    remote_of: RemoteOf,
) -> HostLink:
    if place.host not in hosts:
        raise UsageError(
            f"the hosts file names no {place.host}, which has a recording of the run",
            hint="give the hosts file that the run was made with",
        )
    host = hosts[place.host]
    link = stack.enter_context(HostLink(host, remote_of(host), version, silence_s=SILENCE_S))
    link.connect()
    return link
