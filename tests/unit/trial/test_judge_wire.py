# SPDX-License-Identifier: Apache-2.0
"""A workload whose bytes are not recognised is SAFE by its own check only with all its evidence."""

import os
from types import SimpleNamespace

from powercut.channel.wire import MessageType
from powercut.disk.pclog_format import EVENT
from powercut.model.verdict import FindingKind, Verdict
from powercut.verdict.judge import judge_wire


def five(trial):
    trial.say(MessageType.READY)
    trial.commit(5)


class Content:
    """A workload whose check misses nothing, whatever came back."""

    def promises_by_wire(self, run, timeline, history):
        del run, timeline
        return SimpleNamespace(
            acked=history.acked, attempted=history.attempted, gaps=(),
            claims_received=lambda: None, check=lambda claims, seen: (),
        )  # fmt: skip


def judged(made):
    return judge_wire(made.directory, made.directory.read_record(), Content())


def reasons(result):
    assert {finding.kind for finding in result.findings} <= {FindingKind.INCOMPLETE}
    return [finding.message for finding in result.findings]


def test_one_with_all_its_evidence_is_safe(played):
    result = judged(played(five))
    assert (result.verdict, reasons(result), result.commits_acked) == (Verdict.SAFE, [], 5)


def test_one_whose_disk_log_was_not_closed_is_not(played):
    made = played(five)
    path = made.directory.disk_log.with_suffix(".log")
    os.truncate(path, path.stat().st_size - EVENT.itemsize)
    result = judged(made)
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "the disk log was not closed properly: its end is missing" in reasons(result)


def test_one_that_failed_is_not(played):
    def failed(trial):
        five(trial)
        trial.say(MessageType.ERROR, value=5, payload=b"fdatasync /dev/vda")

    result = judged(played(failed))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert reasons(result) == ["the workload failed: fdatasync /dev/vda: Input/output error (EIO)"]


def test_one_whose_acks_were_cut_off_is_not(played):
    result = judged(played(five, end=False))
    assert result.verdict is Verdict.INCONCLUSIVE
    assert reasons(result) == ["the history of acks was cut off: later ones may be missing"]
