# SPDX-License-Identifier: Apache-2.0
"""Which recordings are kept once they have been judged, and how.

A matrix of a thousand cells makes three thousand recordings, and nearly all of them say that
all was well.  Packed (powercut.store.packed) they take some ten kilobytes each, so that what a SAFE
rests on can be kept.  What is dropped leaves its manifest, trial.json and verdict.json, so that
the digest of the evidence stands in a certificate all the same; it cannot be judged again.
"""

from __future__ import annotations

import enum

from powercut.model.verdict import Verdict
from powercut.store.trial_dir import TrialDir


class Keep(enum.Enum):
    """Which recordings stay."""

    ALL = "all"  # as they were recorded, and what was measured besides
    EVIDENCE = "evidence"  # everything that a verdict rests on, packed
    NOTABLE = "notable"  # of that, all but cuts that lost nothing and controls that behaved
    NONE = "none"


def keep_or_drop(
    trial: TrialDir, verdict: Verdict, wanted: Verdict, keep: Keep, *, control: bool
) -> None:
    """Packs the evidence of a judged trial, or drops it, as `keep` says.

    Raises HostError and DamagedRecording.
    """
    boring = verdict is wanted and (control or verdict in (Verdict.SAFE, Verdict.SURVIVED))
    if keep is Keep.NONE or (keep is Keep.NOTABLE and boring):
        trial.drop_evidence()
    elif keep is not Keep.ALL:
        trial.pack()
