# SPDX-License-Identifier: Apache-2.0
"""Run ids: in every record of a run, and in no other run's."""

import hashlib


def run_id_of(trial_seed: int) -> bytes:
    """The 16 bytes that mark the records of a trial.

    They follow from the seed, so that a trial can be repeated exactly.  Every trial starts
    from a freshly formatted disk; so two trials with one seed cannot meet on one.
    """
    return hashlib.sha256(f"powercut run id {trial_seed}".encode()).digest()[:16]
