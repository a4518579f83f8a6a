# SPDX-License-Identifier: Apache-2.0
"""Planted where a log that somebody else has written is judged by its marks."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import LOGS

_L = "harness/powercut_extras/logs"
logs = planter("logs", LOGS)

MUTANTS: tuple[Mutant, ...] = (
    *logs(
        f"{_L}/explore.py",
        (
            "blind-check-believed",
            At(
                "_doubts_of_checks",
                "judge.findings(recording.promises.claims_at(instant), judge.recover(()))",
            ),
            "True",
            "a check that is content with the disk before the log has begun is believed",
        ),
        (
            "taken-away-convicts",
            At(
                "LogLastWord.excuse",
                "lost & _lost(_of_whole(self.recorded, states, state.instant, promise))",
            ),
            "True",
            "what the workload has removed since its mark is a loss",
        ),
    ),
    *logs(
        f"{_L}/marks.py",
        (
            "crashed-check-convicts",
            At("MarkPromises._of_check", "told.status >= NO_VERDICT"),
            "False",
            "a check that was not run, or was killed, says that a mark is not kept",
        ),
        (
            "damage-forgiven",
            At("LogPromises._of_fsck", "answer.status in row.wrong"),
            "False",
            "the file system's checker finds errors, and nothing follows",
        ),
    ),
    *logs(
        "harness/powercut/explore/worker.py",
        (
            "mark-answers-for-another",
            At("LocalWorker._of_recording", "self._decided.forget()"),
            "None",
            "what a check said of one mark is what it says of the next, on the same bytes",
        ),
    ),
    *logs(
        "harness/powercut/recording/disk.py",
        (
            "trial-vouches-for-a-log",
            At("DiskRecording.named_by", "IMPORT_FILE if self.imported else TRIAL_FILE"),
            "TRIAL_FILE",
            "the seal of a recording that was made here lets a log beside it run commands",
        ),
    ),
)
