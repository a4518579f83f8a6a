# SPDX-License-Identifier: Apache-2.0
"""Certificates without a guest: profiles, causes, comparisons, contradictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_images import png

from powercut.campaign.selection import Selection
from powercut.model.confidence import upper_bound
from powercut.model.errors import UsageError
from powercut.model.verdict import LsnRange, Verdict
from powercut.paths import SCENARIOS, as_word
from powercut.scenario.load import load_scenario, parse_scenario
from powercut.scenario.plan import Cell, Trial, Trigger, TriggerKind
from powercut.scenario.preset import preset_names
from powercut.scenario.settings import ControlKind, Expect, Parameters
from powercut.store.component import Component
from powercut.store.results import CellResult, ControlResult
from powercut.store.trial_result import Exposure, TrialResult
from powercut_extras.certify import known_causes
from powercut_extras.certify.build import axes_of, counted
from powercut_extras.certify.causes import NOT_ALONE, NOT_THERE, explanation_of
from powercut_extras.certify.certificate import (
    Certificate,
    CertifiedCell,
    CertifiedControl,
    SealedRecording,
)
from powercut_extras.certify.compare import (
    compare_certificates,
    compare_values,
    got_unknown,
    got_worse,
)
from powercut_extras.certify.flat import differing
from powercut_extras.certify.issuer import Issuer, logo_of
from powercut_extras.certify.known_causes import causes_of
from powercut_extras.certify.measurement import RequestCounts, WireAccount
from powercut_extras.certify.request import CertifyOptions, request_of
from powercut_extras.certify.verify import contradictions
from powercut_extras.certify.words import statement_of, untested

QEMU = Component(role="hypervisor", name="qemu", version="7.2", sha256="a" * 64)


def parameters(**settings: dict[str, Any]) -> Parameters:
    return Parameters.model_validate(settings)


def evidence(name: str) -> SealedRecording:
    return SealedRecording(directory=f"runs/x/cells/{name}/0001", sha256="b" * 64, kept=False)


def cell(name: str, verdict: Verdict = Verdict.SAFE, **settings: dict[str, Any]) -> CertifiedCell:
    p = parameters(**settings)
    safe = verdict is Verdict.SAFE
    kinds = [ControlKind.LYING_DISK, ControlKind.NO_SYNC] if safe else [ControlKind.HONEST]
    return CertifiedCell(
        scenario="x",
        cell=name,
        settings=differing(p),
        parameters=p,
        components=(0,),
        verdict=verdict,
        expected=Expect.SAFE,
        as_expected=safe,
        cuts=1,
        acked=10,
        lost=0 if safe else 10,
        lost_lsns=() if safe else (LsnRange(1, 10),),
        exposure=Exposure(records=0 if safe else 10, never_durable=0, longest_ms=0.0),
        loss_probability_upper_95=upper_bound(0, 1) if safe else None,
        controls=tuple(
            CertifiedControl(
                kind=kind,
                expected=Expect.LOSSY if safe else Expect.SAFE,
                verdict=Verdict.LOSSY if safe else Verdict.SAFE,
                behaved=True,
                evidence=evidence(kind.value),
            )
            for kind in kinds
        ),
        confirmed=None if safe else True,
        explanation="" if safe else "somebody lied",
        evidence=(evidence(name),),
    )


def certificate(*cells: CertifiedCell) -> Certificate:
    from powercut import __version__

    return Certificate(
        powercut=__version__,
        title="t",
        seed=1,
        started="2026-11-21T00:00:00+00:00",
        seconds=1.0,
        command="./powercut certify",
        host={},
        components=(QEMU,),
        axes=axes_of(cells),
        strategy="listed",
        verdicts=counted(cells),
        as_expected=all(c.as_expected for c in cells),
        cells=cells,
        statement=statement_of(cells, ()),
    )


def test_the_statement_promises_no_control_that_there_was_not():
    whole = cell("a")
    half = cell("b", machine={"bus": "ide"}).model_copy(update={"controls": whole.controls[:1]})
    both = "on a lying disk and without sync were seen to lose theirs."
    assert both in statement_of([whole], ())
    assert "combination on a lying disk were seen" in statement_of([half], ())
    mixed = statement_of([whole, half], ())
    assert "on a lying disk (of some also without sync) were seen" in mixed
    other = whole.model_copy(update={"controls": whole.controls[1:]})
    assert "on a lying disk or without sync were seen" in statement_of([half, other], ())


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ([Verdict.SAFE], "1 combination of settings, 1 cut: 1 kept every record that it had"),
        ([Verdict.INCONCLUSIVE], "1 combination of settings, 1 cut: 1 could not be decided."),
        (
            [Verdict.SURVIVED],
            "1 combination of settings, 1 cut: 1 survived. SURVIVED is less than SAFE",
        ),
        (
            [Verdict.SAFE, Verdict.LOSSY, Verdict.SAFE],
            "3 combinations of settings, 3 cuts: 2 kept every record that they had acknowledged; "
            "1 lost acknowledged records, acknowledged some too early, or would have lost some to "
            "another cut. ",
        ),
    ],
)
def test_the_statement_counts_no_verdict_that_no_cell_has(verdicts, said):
    cells = [cell(str(n), verdict) for n, verdict in enumerate(verdicts)]
    assert statement_of(cells, ()).replace("power cut", "cut").startswith(said)


def test_the_statement_calls_nothing_a_power_cut_that_left_the_power_on():
    kill = cell("a", cut={"kind": "vm-kill", "policy": "keep"})
    assert statement_of([kill], ()).startswith("1 combination of settings, 1 cut: ")
    told = statement_of([kill, cell("b")], ())
    assert "In 1 of these cells the disk kept its power" in told
    assert "kept its power" not in statement_of([cell("b")], ())


def test_the_statement_says_what_the_disk_has_to_promise():
    sector = cell("b", disk={"atomic_unit": 512})
    assert (
        "The disk has to promise that it writes an aligned block of 4,096 bytes whole or not at "
        "all when its power fails; nothing is said of one that promises less, such as sectors of "
        "512 bytes." in statement_of([cell("a")], ())
    )
    both = statement_of([cell("a"), sector], ())
    assert "in 1 cell that it writes an aligned block of 512 bytes whole" in both
    assert "fails, as every disk with sectors does. The disk has to promise in 1 cell" in both
    none = statement_of([cell("c", disk={"atomic_unit": 1})], ())
    assert "The disk has to promise nothing about torn writes." in none
    kill = cell("a", cut={"kind": "vm-kill", "policy": "keep"})
    assert "has to promise" not in statement_of([kill], ())


def test_a_consistent_certificate_has_no_contradiction():
    made = certificate(cell("a"), cell("b", Verdict.LOSSY, machine={"cache": "unsafe"}))
    assert list(contradictions(made)) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lost": 1}, "it is safe and has lost records"),
        ({"lost": 11}, "11 of 10 records cannot be lost"),
        ({"controls": ()}, "without the controls that vouch"),
        ({"exposure": None}, "or whether they were is not known"),
        ({"loss_probability_upper_95": 0.5}, "no number of its 1 cuts gives the bound"),
        ({"components": (1,)}, "a component is not in the list"),
        ({"confirmed": True}, "confirmed is for lossy cells"),
        ({"explanation": "x"}, "an explanation is for cells that are not safe"),
        ({"cause": "x"}, "a cause is for lossy cells alone"),
        ({"cuts": 2}, "2 cuts with 1 recordings"),
        ({"settings": {"machine.bus": "ide"}}, "its settings are not those"),
        ({"as_expected": False}, "as_expected contradicts"),
    ],
)
def test_a_contradiction_is_named(changes, words):
    made = certificate(cell("a").model_copy(update=changes))
    assert any(words in problem for problem in contradictions(made))


def test_a_safe_cell_whose_control_misbehaved_is_a_contradiction():
    good = cell("a")
    wrong = good.controls[0].model_copy(update={"verdict": Verdict.SAFE, "behaved": False})
    made = certificate(good.model_copy(update={"controls": (wrong, good.controls[1])}))
    assert any("a control misbehaved" in problem for problem in contradictions(made))
    hidden = wrong.model_copy(update={"behaved": True})
    made = certificate(good.model_copy(update={"controls": (hidden, good.controls[1])}))
    assert any("behaved contradicts its verdict" in problem for problem in contradictions(made))


def test_what_changed_hands_between_two_certificates():
    before = certificate(cell("a"), cell("b", machine={"bus": "nvme"}), cell("old", trials=2))
    after = certificate(
        cell("other-name"),
        cell("b", Verdict.LOSSY, machine={"bus": "nvme"}),
        cell("new", machine={"bus": "ide"}),
    )
    outcome = compare_certificates(before, after, ("A", "B"))
    assert outcome.same == 1, "cells are the same by their settings, whatever they are called"
    (change,) = outcome.changed
    assert (change.before.cell, change.after.verdict) == ("b", Verdict.LOSSY)
    assert [[c.cell for c in side] for side in outcome.only] == [[], ["new"]]
    assert got_worse(outcome)
    assert not got_worse(compare_certificates(after, before, ("B", "A")))


def test_a_promise_of_which_nothing_is_known_any_more_is_not_one_that_was_kept():
    before, after = certificate(cell("a")), certificate(cell("a", Verdict.INCONCLUSIVE))
    outcome = compare_certificates(before, after, ("A", "B"))
    assert (got_worse(outcome), got_unknown(outcome)) == (False, True)
    assert not got_unknown(compare_certificates(after, before, ("B", "A")))


@pytest.mark.parametrize(
    "aside", [{"expect": "lossy"}, {"trials": 5}, {"controls": ["lying-disk"]}, {"deadline": "90s"}]
)
def test_a_loss_that_is_expected_by_now_is_a_change_all_the_same(aside):
    before = certificate(cell("a", machine={"bus": "nvme"}))
    after = certificate(cell("a", Verdict.LOSSY, machine={"bus": "nvme"}, **aside))
    outcome = compare_certificates(before, after, ("A", "B"))
    assert outcome.only == ((), ())
    assert got_worse(outcome)


def test_where_nothing_can_be_compared_nothing_is_known():
    before, after = certificate(cell("a")), certificate(cell("b", machine={"bus": "nvme"}))
    outcome = compare_certificates(before, after, ("A", "B"))
    assert (outcome.same, outcome.changed) == (0, ())
    assert got_unknown(outcome)


def test_what_changed_hands_between_two_versions_within_one():
    made = certificate(
        cell("a", Verdict.LOSSY, machine={"qemu": "bookworm", "bus": "nvme"}),
        cell("b", machine={"qemu": "sid", "bus": "nvme"}),
        cell("c", machine={"qemu": "trixie", "bus": "nvme"}),
    )
    outcome = compare_values(made, "bookworm", "sid")
    assert [(c.before.cell, c.after.cell) for c in outcome.changed] == [("a", "b")]
    assert outcome.only == ((), ())
    with pytest.raises(UsageError, match="ran on both 'bookworm' and 'forky'"):
        compare_values(made, "bookworm", "forky")


@pytest.mark.parametrize(
    ("settings", "layer"),
    [
        ({"machine": {"cache": "unsafe"}}, "hypervisor"),
        ({"machine": {"no_flush": "on", "write_cache": "off"}}, "hypervisor"),
        ({"machine": {"bus": "nvme"}}, "hypervisor"),
        ({"machine": {"bus": "nvdimm"}}, "hypervisor"),
        ({"machine": {"guest_write_cache": "write-through"}}, "guest block layer"),
        ({"workload": {"sync": "none"}}, "workload"),
        ({"disk": {"flush": "ignored"}}, "disk"),
        ({"disk": {"fua": "ignored"}, "machine": {"cache": "writethrough"}}, "disk"),
        ({"filesystem": {"type": "ext4", "mount": ["barrier=0"]}}, "file system"),
    ],
)
def test_known_causes_name_the_layer(settings, layer):
    (cause,) = causes_of(parameters(**settings))
    assert cause.layer == layer


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"machine": {"bus": "nvme", "cache": "writethrough"}},
        {"machine": {"bus": "nvme"}, "filesystem": {"type": "raw"}},
        {"disk": {"fua": "ignored"}},
        {"disk": {"flush": "ignored", "volatile_cache": False}},
        {"machine": {"bus": "ide", "cache": "writethrough"}},
        # What is in no volatile cache, or stays there, is not lost for want of a flush.
        {"machine": {"cache": "unsafe"}, "disk": {"volatile_cache": False}},
        {"machine": {"cache": "unsafe"}, "cut": {"kind": "vm-kill", "policy": "keep"}},
        {"disk": {"flush": "ignored"}, "cut": {"kind": "guest-crash", "policy": "keep"}},
        {"machine": {"bus": "nvme"}, "cut": {"kind": "vm-kill", "policy": "keep"}},
    ],
)
def test_no_cause_is_claimed_where_there_is_none(settings):
    assert causes_of(parameters(**settings)) == ()


@pytest.mark.parametrize(
    ("ends_at", "fits"),
    [("hypervisor", True), ("file system", False), ("", True)],
)
def test_a_cause_is_not_asserted_against_what_was_seen_on_the_wire(ends_at, fits):
    found = parameters(machine={"cache": "unsafe"})
    lossy = TrialResult.judged(
        Trial(1, 1, 1, Trigger(TriggerKind.ACKS, 1)),
        verdict=Verdict.LOSSY,
        acked=1,
        attempted=1,
        findings=(),
    )
    result = CellResult.of("x", Cell("a", found, ()), [lossy], verdict=Verdict.LOSSY)
    counts = RequestCounts(writes=1, fua_writes=0, flushes=0, written_bytes=1)
    wire = WireAccount(
        commits=1,
        committed_bytes=1,
        asked=None,
        guest=counts,
        hypervisor=None,
        disk=counts,
        uncovered=1,
        not_durable=1,
        flush_ends_at=ends_at,
        because="",
    )
    told = explanation_of(result, wire)
    assert told.cause.startswith("hypervisor: cache.no-flush")
    assert told.layer == "hypervisor"
    assert (NOT_THERE in told.details) is not fits
    assert str(told).startswith(told.cause)


@pytest.mark.parametrize(
    ("twin", "said"),
    [
        (Verdict.SAFE, ""),
        (Verdict.LOSSY, "is LOSSY, too: that this is the cause is not shown"),
        (Verdict.INCONCLUSIVE, "came to no verdict: that this is the cause is not shown"),
    ],
)
def test_no_layer_is_blamed_alone_for_what_its_honest_twin_loses_too(twin, said):
    lossy = TrialResult.judged(
        Trial(1, 1, Trigger(TriggerKind.ACKS, 1), 1),
        verdict=Verdict.LOSSY,
        acked=1,
        attempted=1,
        findings=(),
    )
    control = ControlResult(
        kind=ControlKind.HONEST, expected=Expect.SAFE, verdict=twin, behaved=twin is Verdict.SAFE
    )
    found = Cell("a", parameters(machine={"cache": "unsafe"}), ())
    result = CellResult.of("x", found, [lossy], verdict=Verdict.LOSSY, controls=[control])
    told = str(explanation_of(result))
    assert told.startswith("hypervisor: cache.no-flush")
    assert (NOT_ALONE in told) is bool(said)
    assert said in told


def test_every_cause_refers_to_something_that_is_there():
    for cause in (*known_causes._OF_A_LOSS, known_causes.USB):
        assert (SCENARIOS.parent / cause.reference).is_file(), cause.reference


def test_values_that_no_cell_has_are_listed():
    entries = list(untested([parameters()]))
    assert {"machine.bus": "nvme"} in [entry.settings for entry in entries]
    assert {"machine.bus": "virtio-blk"} not in [entry.settings for entry in entries]


@pytest.mark.parametrize("profile", ["quick", "nightly"])
def test_profiles_are_sets_of_scenarios_with_names_of_their_own(profile):
    found = [load_scenario(path) for path in (SCENARIOS / "certify" / profile).glob("*.yaml")]
    assert len(found) >= 4
    assert len({scenario.name for scenario in found}) == len(found)


def test_the_nightly_profile_has_every_preset():
    scenario = load_scenario(SCENARIOS / "certify" / "nightly" / "presets.yaml")
    assert {name.replace("/", "-") for name in preset_names()} == {
        draft.name for draft, _ in scenario.cells
    }


def test_a_request_says_how_to_repeat_it(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text("powercut: 1\nname: s\nmatrix: {machine.bus: [ide, virtio-blk]}\n")
    asked = CertifyOptions(scenarios=(str(file),), qemu=("host", "sid"), no_cost=True, seed=3)
    request = request_of(asked, Selection(trials=2), [file])
    assert request.title == "s"
    assert request.command == (
        f"./powercut certify {as_word(file)} --qemu host --qemu sid --no-cost --seed 3 --trials 2"
    )
    assert len(request.scenarios[0].cells) == 4
    assert not request.measure
    with pytest.raises(UsageError, match="contradict each other"):
        request_of(CertifyOptions(disks=("nvme",), no_cost=True), Selection(), [])


def test_what_a_request_leaves_out_is_counted_for_every_version(tmp_path):
    text = (
        "powercut: 1\nname: s\nmatrix:\n  machine.bus: [ide, virtio-blk]\n"
        "  machine.cache: [none, unsafe]\n  exclude: [{machine.cache: unsafe}]\n"
    )
    file = tmp_path / "s.yaml"
    file.write_text(text)
    assert parse_scenario(text, Path("s.yaml")).left_out[0].combinations == 2
    request = request_of(
        CertifyOptions(scenarios=("s",), qemu=("host", "sid")), Selection(), [file]
    )
    (entry,) = request.left_out
    assert (entry.combinations, entry.reason) == (4, "s: excluded by the scenario")


def test_who_issues_it_is_asked_for_again_and_kept_with_the_order(tmp_path):
    file, logo = tmp_path / "s.yaml", tmp_path / "logo.png"
    file.write_text("powercut: 1\nname: s\n")
    logo.write_bytes(png())
    asked = CertifyOptions(
        scenarios=("s",), heading="Cluster B", issuer="Ltd", contact="me@b", logo=logo, seed=1
    )
    request = request_of(asked, Selection(), [file])
    assert (request.title, request.heading) == ("s", "Cluster B")
    assert request.issuer == Issuer(name="Ltd", contact="me@b", logo=logo_of(png()))
    assert request.command == (
        "./powercut certify s --title 'Cluster B' --issuer Ltd --contact me@b "
        f"--logo {as_word(logo)} --seed 1"
    )
    with pytest.raises(UsageError, match="--issuer: it has 200 characters"):
        request_of(CertifyOptions(scenarios=("s",), issuer="x" * 200), Selection(), [file])
