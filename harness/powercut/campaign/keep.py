# SPDX-License-Identifier: Apache-2.0
"""Which recordings are kept once they have been judged.

A matrix of a thousand cells makes three thousand recordings, and nearly all of them say that
all was well.  What is dropped leaves its manifest, trial.json and verdict.json, so that the
digest of the evidence stands in a certificate all the same; it cannot be judged again.
"""

from __future__ import annotations

import enum

from powercut.model.verdict import Verdict
from powercut.store.layout import TrialDir


class Keep(enum.Enum):
    """Which recordings stay."""

    ALL = "all"
    NOTABLE = "notable"  # all but cuts that lost nothing, as expected, and controls that behaved
    NONE = "none"


def drop_unless_kept(
    trial: TrialDir, verdict: Verdict, wanted: Verdict, keep: Keep, *, control: bool
) -> None:
    """Drops the evidence of a judged trial unless it is to be kept.  Raises HostError."""
    boring = verdict is wanted and (control or verdict is Verdict.SAFE)
    if keep is Keep.NONE or (keep is Keep.NOTABLE and boring):
        trial.drop_evidence()
