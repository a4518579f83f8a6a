# SPDX-License-Identifier: Apache-2.0
"""Each fault that powercut claims to see is planted and found, to the record; honest
configurations stay silent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from powercut.campaign.runner import run_scenarios
from powercut.campaign.verify import verify
from powercut.model.operations import AckBasis
from powercut.model.verdict import FindingKind, LsnRange, Verdict
from powercut.paths import SCENARIOS
from powercut.recording.sealed import SealedTrial
from powercut.store.layout import ResultDir

RAW = """
filesystem: {type: raw}
workload: {direct: true, align: 4096, record: 4096, sync: fdatasync}
cut: {trigger: {acks: 100}}
controls: none
"""


def only(result):
    (cell,) = result.cells
    (trial,) = cell.trials
    return trial


def finding(trial, kind):
    (found,) = [f for f in trial.findings if f.kind is kind]
    return found


@pytest.fixture(scope="module")
def first_light(tmp_path_factory, guest_image):
    """The result of one run of first-light."""
    (result,) = run_scenarios(
        [SCENARIOS / "first-light.yaml"], seed=1, results=tmp_path_factory.mktemp("first")
    ).runs
    return result


def test_first_light(first_light):
    honest, lying, no_sync = first_light.cells
    assert first_light.exit_status == 0
    assert all(cell.as_expected for cell in first_light.cells)
    assert honest.verdict is Verdict.SAFE
    assert honest.commits_acked >= 300
    assert honest.commits_lost == 0
    assert honest.findings == {}
    assert honest.exposure.records == 0
    assert [control.behaved for control in honest.controls] == [True, True]
    for cell in (lying, no_sync):
        assert cell.verdict is Verdict.LOSSY
        everything = (LsnRange(1, cell.commits_acked),)
        assert cell.lost_lsns == everything, "the live cut"
        assert cell.exposure.lsns == everything, "the analysis of the recording"
        assert cell.exposure.never_durable == cell.commits_acked
        assert set(cell.findings) == {FindingKind.LOST, FindingKind.EXPOSED}
    trials = ResultDir.open(result_directory(first_light)).trials()
    assert len(list(trials)) == 3, "cells are controls"


def result_directory(result):
    return Path(result.result_directory)


def test_verify_comes_to_the_same(first_light):
    again = verify(result_directory(first_light))
    volatile = {"seconds", "scenario_file", "reproduce"}
    assert again.model_dump(exclude=volatile) == first_light.model_dump(exclude=volatile)


@pytest.mark.parametrize(
    ("filesystem", "cache"),
    [
        # The guest sees a write cache with the first of each, none with the second; the bare disk
        # of each bus is in test_run_buses.
        *(("xfs", cache) for cache in ("none", "writethrough")),
        *(("ext4", cache) for cache in ("writeback", "directsync")),
    ],
)
def test_honest_disks_lose_nothing(run, filesystem, cache):
    result = run(
        f"filesystem: {{type: {filesystem}}}\n"
        f"machine: {{cache: {cache}}}\n"
        "cut: {trigger: {acks: 60}}\ncontrols: none\n"
    )
    trial = only(result)
    assert trial.findings == ()
    assert trial.commits_acked >= 60
    assert trial.verdict is Verdict.SAFE
    # Without controls nobody may call that SAFE.
    assert result.verdict is Verdict.INCONCLUSIVE


def test_cache_unsafe_drops_the_flushes_and_is_convicted(run):
    """On a file system; on the bare disk it is in tests/vm/certify."""
    trial = only(
        run("machine: {cache: unsafe}\ncut: {trigger: {acks: 50}}\ncontrols: none\nexpect: lossy\n")
    )
    everything = (LsnRange(1, trial.commits_acked),)
    assert trial.lost_lsns == everything
    assert trial.exposure.lsns == everything


def test_one_lie_is_enough(run):
    """A disk that keeps FUA and ignores flushes, under a cache mode that uses each."""
    lie = "disk: {flush: ignored}\ncut: {trigger: {acks: 50}}\ncontrols: none\n"
    flushes = only(run(lie + "machine: {cache: none}\nexpect: lossy\n"))
    assert flushes.lost_lsns == (LsnRange(1, flushes.commits_acked),)
    fua = only(run(lie + "machine: {cache: writethrough}\n"))
    assert fua.verdict is Verdict.SAFE
    assert fua.commits_lost == 0


@pytest.mark.parametrize("kind", ["guest-crash", "vm-kill"])
def test_a_cut_that_leaves_the_power_on_convicts_nobody(run, kind):
    trial = only(
        run(
            "disk: {flush: ignored, fua: ignored}\n"
            f"cut: {{kind: {kind}, policy: keep, trigger: {{acks: 50}}}}\ncontrols: none\n"
        )
    )
    assert trial.commits_acked >= 50
    assert trial.commits_lost == 0
    # Such a disk takes no time for a flush, so that an ack may not be proved on a busy host.
    assert {f.verdict for f in trial.findings} <= {Verdict.INCONCLUSIVE}


def test_early_ack_is_found_by_exposure_at_least(run):
    trial = only(
        run(
            RAW.replace("sync: fdatasync", "sync: fdatasync, plant: early-ack").replace(
                "acks: 100", "acks: 20"
            )
            + "disk: {flush_latency: 100ms}\nexpect: lossy\n"
        )
    )
    exposed = finding(trial, FindingKind.EXPOSED)
    assert exposed.verdict is Verdict.LOSSY
    # Every ack comes before its sync, and no ack is dated as late as this flush takes.
    assert exposed.lsns == (LsnRange(1, trial.commits_acked),)


AHEAD = """
filesystem: {type: raw}
workload: {record: 512, sync: fdatasync, plant: "ack-ahead:200"}
cut: {trigger: {acks: 250}}
controls: none
expect: lossy
"""


def test_two_acks_200_us_before_their_sync_are_found_among_honest_ones(run):
    """The receipts of such acks tell little or nothing."""
    trial = only(run(AHEAD))
    exposed = finding(trial, FindingKind.EXPOSED)
    assert exposed.lsns == (LsnRange(100, 100), LsnRange(200, 200))
    assert trial.acks.basis is AckBasis.CLOCK
    assert 0 < trial.acks.usual_window_us <= trial.acks.window_us
    assert trial.acks.shortest_sync_us >= 1000


def test_on_a_disk_without_latency_no_ack_is_taken_on_trust(run):
    """Honest acks, each within 0.1 ms after a flush that took a microsecond: not proved."""
    trial = only(
        run(
            AHEAD.replace(', plant: "ack-ahead:200"', "").replace("lossy", "safe")
            + "disk: {model: none}\n"
        )
    )
    (open_question,) = trial.findings
    assert (open_question.kind, open_question.verdict) == (
        FindingKind.INCOMPLETE,
        Verdict.INCONCLUSIVE,
    )
    assert "may have been acknowledged before their sync began" in open_question.message
    assert open_question.lsns == trial.acks.unproved


def test_a_skipped_sync_is_named_exactly(run):
    """Every third sync is left out; the next one covers it, but a cut in between would not."""
    trial = only(
        run(
            RAW.replace("sync: fdatasync", "sync: fdatasync, plant: 'skip-sync:3'").replace(
                "acks: 100", "acks: 20"
            )
            + "disk: {flush_latency: 50ms}\nexpect: lossy\n"
        )
    )
    exposed = finding(trial, FindingKind.EXPOSED)
    lsns = [lsn for span in exposed.lsns for lsn in range(span.first, span.last + 1)]
    assert lsns == list(range(3, trial.commits_acked + 1, 3))


@pytest.mark.parametrize(
    ("plant", "kind"),
    [
        ("torn-write:60", FindingKind.TORN),
        ("flip-bit:60", FindingKind.CORRUPT),
        ("wrong-offset:60", FindingKind.MISDIRECTED),
    ],
)
def test_a_damaged_record_is_named(run, plant, kind):
    trial = only(
        run(RAW.replace("sync: fdatasync", f"sync: fdatasync, plant: '{plant}'") + "expect: lossy")
    )
    found = finding(trial, kind)
    assert found.verdict is Verdict.LOSSY
    assert found.lsns == (LsnRange(60, 60),)
    assert trial.verdict is Verdict.LOSSY
    assert FindingKind.DISAGREEMENT not in {f.kind for f in trial.findings}


@pytest.mark.parametrize("policy", ["random", pytest.param("prefix", marks=pytest.mark.nightly)])
def test_survivors_agree_with_the_recording(run, policy):
    """What a lying disk happens to keep is predicted record by record (raw: exactly)."""
    trial = only(
        run(
            RAW.replace("acks: 100", "acks: 200").replace("cut: {", f"cut: {{policy: {policy}, ")
            + "disk: {flush: ignored, fua: ignored}\nexpect: lossy\n"
        )
    )
    assert 0 < trial.commits_lost < trial.commits_acked
    assert FindingKind.DISAGREEMENT not in {f.kind for f in trial.findings}


def test_a_cut_at_a_flush_is_exact(run):
    """The disk freezes at the submission of the flush: one record per flush on a raw disk."""
    trial = only(run(RAW.replace("acks: 100", "flushes: 42")))
    assert trial.findings == ()
    assert trial.commits_acked == 41


@pytest.mark.parametrize("layout", ["append", pytest.param("recycled", marks=pytest.mark.nightly)])
def test_an_attempt_that_the_cut_swallowed_is_known_from_the_disk(run, monkeypatch, layout):
    """Messages and writes travel separately: a write may arrive whose attempt does not."""
    result = run(
        f"workload: {{layout: {layout}, capacity: 64KiB}}\ncut: {{trigger: {{acks: 300}}}}\n"
        "controls: none\n"
    )

    read_acks = SealedTrial.acks.func

    def without_last_attempts(sealed):
        recorded = read_acks(sealed)
        history = recorded.history
        kept = history.attempt_lsn < history.acked - 5
        fewer = replace(
            history,
            attempt_lsn=history.attempt_lsn[kept],
            attempt_ns=history.attempt_ns[kept],
            attempt_guest_ns=history.attempt_guest_ns[kept],
        )
        assert fewer.attempted < history.acked
        return replace(recorded, history=fewer)

    monkeypatch.setattr(SealedTrial, "acks", property(without_last_attempts))
    again = verify(result_directory(result))
    assert only(again).findings == ()
    assert only(again).commits_attempted >= 300
