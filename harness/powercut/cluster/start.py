# SPDX-License-Identifier: Apache-2.0
"""From what `--cluster` names to an engine that makes runs; and recordings fetched from it later.

local                            all processors of this host
tcp://HOST:PORT tls://HOST:PORT  a Dask scheduler
FILE                             its scheduler file; or a hosts file, whose hosts are up meanwhile
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from powercut.campaign.run import Run
from powercut.cluster.claims import fetch, fetch_row, judge_again
from powercut.cluster.engine import Address, Engine
from powercut.cluster.local import INSTALL, LOCAL, local_cluster
from powercut.cluster.node import Pem
from powercut.cluster.roster import ClusterHost, FalseClaim
from powercut.cluster.run import FLEET, ClusterRun
from powercut.cluster.up import hosts_cluster
from powercut.model.errors import HostError, UsageError
from powercut.model.events import Notice, RunEvent
from powercut.model.json_text import parse_json
from powercut.model.named_path import openable
from powercut.rig.engine_shelf import EngineShelf
from powercut.store.layout import ResultDir, folder_name
from powercut.store.place import Place, read_place
from powercut.store.rows import Row
from powercut.store.trial_dir import TrialDir


@contextlib.contextmanager
def runs_on(cluster: str, on_event: Callable[[RunEvent], None]) -> Iterator[Callable[..., Run]]:
    """What makes runs on a cluster.  Raises what `engine_of` does."""
    with engine_of(cluster, on_event) as engine:
        where = cluster if cluster == LOCAL or "://" in cluster else str(Path(cluster).resolve())
        yield partial(ClusterRun, engine, cluster=where)


@contextlib.contextmanager
def engine_of(cluster: str, on_event: Callable[[RunEvent], None]) -> Iterator[Engine]:
    """The engine that `--cluster` names.  Raises UsageError, HostError."""
    if importlib.util.find_spec("distributed") is None:
        raise HostError("Dask distributed is not installed", hint=INSTALL)
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(_address(cluster, on_event))
        yield stack.enter_context(Engine(address))


@contextlib.contextmanager
def _address(
    cluster: str, on_event: Callable[[RunEvent], None]
) -> Iterator[Address | Callable[[], Address]]:
    if cluster == LOCAL:
        with local_cluster() as address:
            yield address
        return
    if "://" in cluster:
        yield Address.parse(cluster)
        return
    path = Path(cluster)
    try:
        text = openable(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{cluster}: {getattr(error, 'strerror', None) or 'not a text file'}",
            hint="local, tcp://HOST:PORT, tls://HOST:PORT, a scheduler file or a hosts file",
        ) from None
    if text.lstrip().startswith("{"):
        yield address_in(path, text)
        return
    with hosts_cluster(path, on_event) as address:
        yield address


def address_in(path: Path, text: str) -> Address:
    """The address in the `text` of a scheduler's file at `path`.  Raises UsageError."""
    try:
        told = parse_json(text)
        pem = Pem.model_validate(told["pem"]) if "pem" in told else None
        return Address.parse(str(told["address"]), pem)
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            f"{path}: not the scheduler file of a Dask cluster",
            hint="`dask scheduler --scheduler-file` and `powercut doctor hosts up` write one",
        ) from None


def fetch_recordings(
    path: Path,
    engine: Engine,
    *,
    wanted: Callable[[TrialDir], bool] = lambda _: True,
    on_event: Callable[[Notice], None] = lambda _: None,
) -> tuple[int, tuple[str, ...]]:
    """Fetches what is missing of a run from the hosts that made it, and judges each again.

    Returns how many came, and what is wrong with the others.  Raises HostError.
    """
    run = ResultDir.open(path)
    problems: list[str] = []
    came = 0
    with EngineShelf() as shelf:
        for trial, place, row in _missing(run):
            if not wanted(trial):
                continue
            try:
                host = _host(engine, place)
                if row is None:
                    fetch(host, trial)
                else:
                    fetch_row(host, trial, place.folder, row)
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


def _host(engine: Engine, place: Place) -> ClusterHost:
    for seen in engine.workers:
        if seen.name == place.host:
            return ClusterHost(engine, seen, 1)
    raise HostError(
        f"the cluster has no worker {place.host}, which made it",
        hint="give the cluster that the run was made with",
    )
