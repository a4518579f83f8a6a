# SPDX-License-Identifier: Apache-2.0
"""A run whose trials, and their controls, are made by the workers of a cluster."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from typing import Any, Final

from powercut.campaign.run import Run
from powercut.model.events import Phase
from powercut.paths import as_word
from powercut.store import manifest
from powercut.store.files import host_errors, remove_tree
from powercut.store.results import RunResult
from powercut.store.trial_dir import TrialDir
from powercut.store.trial_result import TrialResult
from powercut.trial.job import TrialJob
from powercut_extras.cluster.identity import identity_for_run
from powercut_extras.cluster.worker import MAKING, Shared, make_trial
from powercut_extras.cluster.workers import Cluster

_JOBS: Final = 256
"""Trials that this host follows at the same time; the cluster says how many are made."""


class ClusterRun(Run):
    """A run on a cluster; of what is sent back the seal is checked here."""

    def __init__(self, cluster: Cluster, *of_run: Any) -> None:
        """`of_run` are the arguments of `Run`."""
        super().__init__(*of_run)
        self.environment = {**self.environment, "cluster": cluster.name}
        self.directory.write_environment(self.environment)
        self.jobs = _JOBS
        self._cluster = cluster
        self._shared = Shared(self.directory.path, secrets.token_hex(16))

    def run(self) -> RunResult:
        """As `Run.run`.  Raises HostError where no worker is left, too."""
        self._cluster.open(
            self.plan,
            identity_for_run(self.rig, self.plan),
            self.on_event,
            f"powercut run --resume {as_word(self.directory.path)} --cluster CLUSTER resumes it",
        )
        made = self.directory.path / MAKING
        with host_errors(made):
            remove_tree(made)  # of a run that was killed
            self._shared.making.mkdir(parents=True)
        try:
            return super().run()
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def _make(self, job: TrialJob, trial: TrialDir, notify: Callable[[Phase], None]) -> TrialResult:
        del notify
        files = self._cluster.call(make_trial, job, trial.relative, self._shared)
        if files is not None:
            with host_errors(trial.path):
                for name, content in files.items():
                    (trial.path / name).write_bytes(content)
            trial.check_seal()
        manifest.adopt(trial.path)  # a worker's mark is that of its own user's state
        return trial.read_verdict()
