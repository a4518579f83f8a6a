# SPDX-License-Identifier: Apache-2.0
"""Planted where the workers of a cluster are looked at, and what they send."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import CLUSTER

_P = "harness/powercut_extras/cluster"
cluster = planter("cluster", CLUSTER)

MUTANTS: tuple[Mutant, ...] = (
    *cluster(
        f"{_P}/workers.py",
        (
            "any-worker",
            At("Cluster._is_alike", "return not wrong"),
            "return True",
            "a worker that is not as this host is named, and works all the same",
        ),
        (
            "silent-worker",
            At("Cluster._is_alike", "wrong = [f'{type(error).__name__}: {error}']"),
            "wrong = []",
            "a worker that cannot say what it is takes part",
        ),
        (
            "first-workers-only",
            At("Cluster._look", "threads * self._is_alike(address)"),
            "0 if self._workers else threads * self._is_alike(address)",
            "who comes later has no part in it",
        ),
        (
            "lost-with-its-worker",
            At("Cluster._returned", "not workers.keys() & self._ready().keys()"),
            "not workers",
            "what the last worker was at is waited for when it is gone",
        ),
    ),
    *cluster(
        f"{_P}/identity.py",
        (
            "code-not-compared",
            At("_own", "f'{__version__} ({_code()[:16]})'"),
            "__version__",
            "another powercut of the same version takes part",
        ),
    ),
    *cluster(
        f"{_P}/run.py",
        (
            "seal-not-looked-at",
            At("ClusterRun._make", "trial.check_seal()"),
            "None",
            "a recording that became another one on its way is kept",
        ),
        (
            "nobody-s-own",
            At("ClusterRun._make", "manifest.adopt(trial.path)"),
            "None",
            "a recording of one's own worker is that of a stranger",
        ),
    ),
    *cluster(
        f"{_P}/worker.py",
        (
            "another-recording",
            At("_recording", "digest_of_manifest(named) != digest"),
            "not named.path.exists()",
            "states are those of whatever recording lies at that place on the worker",
        ),
    ),
)
