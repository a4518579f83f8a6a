# SPDX-License-Identifier: Apache-2.0
"""From what `--cluster` names to a client of Dask's.

local                            all processors of this host, in this process
tcp://HOST:PORT tls://HOST:PORT  a scheduler; Dask's configuration names the certificates of tls
FILE                             its scheduler file
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from powercut.model.errors import HostError, UsageError
from powercut.model.named_path import openable
from powercut.model.printable import parse_json
from powercut.paths import INSTALLED
from powercut_extras.cluster import worker
from powercut_extras.cluster.explore import explore_on
from powercut_extras.cluster.run import ClusterRun
from powercut_extras.cluster.workers import Cluster

LOCAL: Final = "local"
_LOOPBACK: Final = "127.0.0.1:0"
_SCHEMES: Final = ("tcp", "tls")
_NAMES: Final = "local, tcp://HOST:PORT, tls://HOST:PORT or a scheduler file"
_CONNECT_S: Final = 20.0
_INSTALL: Final = (
    "pip install 'powercut[cluster]'"
    if INSTALLED
    else "./powercut in the checkout installs what --cluster needs"
)


class Opened:
    """A cluster as the core has it (powercut.cli.extras)."""

    def __init__(self, cluster: Cluster) -> None:
        self.run = partial(ClusterRun, cluster)
        self.explore = partial(explore_on, cluster)


@contextlib.contextmanager
def open_cluster(named: str) -> Iterator[Opened]:
    """What `--cluster` names, for the core.  Raises UsageError, HostError."""
    with cluster_of(named) as cluster:
        yield Opened(cluster)


@contextlib.contextmanager
def cluster_of(named: str) -> Iterator[Cluster]:
    """The cluster that `--cluster` names.  Raises UsageError, HostError."""
    if importlib.util.find_spec("distributed") is None:
        raise HostError("Dask distributed is not installed", hint=_INSTALL)
    address = _address(named)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is raised
    dask: Any = importlib.import_module("distributed")
    with contextlib.ExitStack() as stack:
        where = stack.enter_context(_here(dask)) if address == LOCAL else address
        try:
            client = stack.enter_context(
                dask.Client(where, set_as_default=False, timeout=_CONNECT_S)
            )
        except (OSError, ValueError, TypeError) as error:
            raise HostError(
                f"{named}: no Dask scheduler: {error}",
                hint="does one of the same release listen there? For tls:// Dask's configuration "
                "names the certificates (distributed.comm.tls)",
            ) from None
        stack.callback(_forget, client)
        yield Cluster(client, named if address == named else str(Path(named).resolve()))


@contextlib.contextmanager
def _here(dask: Any) -> Iterator[Any]:
    """A scheduler and a worker in this process; the pages that Dask serves beside them are none."""
    no_pages: dict[str, list[str]] = {
        f"distributed.{who}.http.routes": [] for who in ("scheduler", "worker")
    }
    with (
        importlib.import_module("dask").config.set(no_pages),
        dask.LocalCluster(
            n_workers=1,
            threads_per_worker=len(os.sched_getaffinity(0)),
            processes=False,
            dashboard_address=_LOOPBACK,
            worker_dashboard_address=_LOOPBACK,
            scheduler_kwargs={"dashboard": False},
            memory_limit=None,
            silence_logs=logging.CRITICAL,
        ) as cluster,
    ):
        yield cluster


def _forget(client: Any) -> None:
    """Ends what the workers keep ready between tasks; those that are gone keep nothing."""
    with contextlib.suppress(Exception):
        client.run(worker.forget, on_error="ignore")


def _address(named: str) -> str:
    """Where the scheduler is, or `LOCAL`.  Raises UsageError."""
    if named == LOCAL:
        return named
    if "://" not in named:
        return _address_in(Path(named))
    with contextlib.suppress(ValueError):
        address = urlsplit(named)
        if address.scheme in _SCHEMES and address.hostname and address.port:
            return named
    raise UsageError(f"--cluster {named}: no address of a scheduler", hint=_NAMES)


def _address_in(path: Path) -> str:
    """The address in a scheduler file.  Raises UsageError."""
    try:
        return str(parse_json(openable(path).read_text())["address"])
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path}: {getattr(error, 'strerror', None) or 'not a text file'}",
            hint=_NAMES,
        ) from None
    except (ValueError, KeyError, TypeError):
        raise UsageError(
            f"{path}: not the scheduler file of a Dask cluster",
            hint="`dask scheduler --scheduler-file` writes one",
        ) from None
