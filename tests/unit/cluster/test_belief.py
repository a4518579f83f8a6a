# SPDX-License-Identifier: Apache-2.0
"""How far a host is believed: claims by hand, without a worker."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import pytest
from fake_machine import FAKE
from hosts_here import two_cells

from powercut.cluster import claims
from powercut.cluster.ledger import Claim, Item, Ledger
from powercut.cluster.messages import Done
from powercut.cluster.roster import ClusterHost, FalseClaim
from powercut.model.errors import DamagedRecording, HostError
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.scenario.load import expand, parse_scenario
from powercut.scenario.machines import MACHINES
from powercut.scenario.plan import Trial, Trigger, TriggerKind
from powercut.scenario.settings import Parameters
from powercut.store.binding import binding_of
from powercut.store.rows import Row, TrialRows
from powercut.store.trial_result import FindingRecord, TrialResult
from powercut.trial.controls import controls_for, same_run
from powercut.trial.job import TrialJob

TRIALS = 41


@dataclass
class PlaceByHand:
    """What a ledger asks of the folder of a trial."""

    removed: bool = False
    written: list[TrialResult] = field(default_factory=list)

    def remove(self):
        self.removed = True

    def write_verdict(self, result):
        self.written.append(result)


@pytest.fixture
def plan(monkeypatch):
    monkeypatch.setitem(MACHINES, "fake", FAKE)
    return expand(parse_scenario(two_cells("by-hand", TRIALS), Path("x.yaml")), seed=7)


@pytest.fixture
def ledger(plan):
    return Ledger(plan)


def host(name, number=1):
    made = ClusterHost(SimpleNamespace(folder=None), SimpleNamespace(
        name=name, address=name, threads=1
    ), number)  # fmt: skip
    made.state = "took-part"
    return made


def result(number, verdict, lost=0):
    return TrialResult(
        trial=number,
        seed=number,
        trigger="by hand",
        verdict=verdict,
        commits_acked=9,
        commits_attempted=9,
        commits_lost=lost,
        lost_lsns=(LsnRange(first=9, last=9),) if lost else (),
        result_directory=f"cells/honest/{number:04d}",
    )


def claim(plan, host, number, verdict=Verdict.SAFE, *, cell=0, judged=False):
    of = plan.cells[cell]
    item = Item(of.name, of.parameters, of.trials[number - 1])
    lost = 1 if verdict is Verdict.LOSSY else 0
    return Claim(host, item, result(number, verdict, lost), PlaceByHand(), judged)


def control(plan, host, verdict):
    of = plan.cells[0]
    wanted = controls_for(of.parameters, Verdict.SAFE)[0]
    lost = 1 if verdict is Verdict.LOSSY else 0
    item = Item(f"{wanted.name}-{of.name}", wanted.parameters, of.trials[0], wanted)
    return same_run(wanted.parameters), Claim(host, item, result(1, verdict, lost), PlaceByHand())


def numbers(found):
    return [one.item.trial.number for one in found]


@pytest.mark.parametrize(("made", "judged"), [(1, 1), (20, 1), (21, 2), (40, 2), (41, 3)])
def test_one_in_twenty_is_judged_again_and_one_at_least(plan, ledger, made, judged):
    alpha = host("alpha")
    for number in range(1, made + 1):
        ledger.add(claim(plan, alpha, number))
    assert len(ledger.drawn(alpha, "seed")) == judged


def test_each_cell_of_each_host_is_drawn_from(plan, ledger):
    alpha, beta = host("alpha"), host("beta")
    for number, (who, cell) in enumerate([(alpha, 0), (alpha, 1), (beta, 0)], 1):
        ledger.add(claim(plan, who, number, cell=cell))
    assert numbers(ledger.drawn(alpha, "seed")) == [1, 2]
    assert numbers(ledger.drawn(beta, "seed")) == [3]


def test_what_is_drawn_follows_from_a_seed_that_no_host_knows(plan, ledger):
    alpha = host("alpha")
    for number in range(1, 21):
        ledger.add(claim(plan, alpha, number))
    drawn = {tuple(numbers(ledger.drawn(alpha, f"seed {n}"))) for n in range(40)}
    assert len(drawn) > 10
    assert numbers(ledger.drawn(alpha, "seed")) == numbers(ledger.drawn(alpha, "seed"))


def test_a_claim_that_was_judged_is_not_drawn_again_nor_another_one_for_it(plan, ledger):
    alpha = host("alpha")
    for number in range(1, 21):
        ledger.add(claim(plan, alpha, number))
    (drawn,) = ledger.drawn(alpha, "seed")
    ledger.set_judged(drawn)
    assert ledger.drawn(alpha, "seed") == []
    account = ledger.account((alpha,))
    assert (account.claims, account.claims_judged, account.losses_judged) == (20, 1, 0)


def test_what_is_judged_after_its_host_was_found_out_vouches_for_no_other(plan, tmp_path):
    alpha, beta = host("alpha"), host("beta")
    with TrialRows.write(
        tmp_path / "rows", {one.name: one.parameters for one in plan.cells}
    ) as rows:
        ledger = Ledger(plan, rows, lambda *_: PlaceByHand())
        ledger.add(of_row(plan, alpha))
        (drawn,) = ledger.drawn(alpha, "seed")
        alpha.state = "distrusted"
        ledger.take_back(alpha, "it lies", distrusted=True)
        assert not ledger.set_judged(drawn)
        assert not ledger.add_control(*control(plan, alpha, Verdict.LOSSY))
        ledger.add(of_row(plan, beta))
        assert numbers(ledger.drawn(beta, "seed")) == [TRIALS]
        assert ledger.account((beta,)).claims_judged == 0
        assert ledger.known() == {}


def of_row(plan, host):
    row = Row.of(host.name, 1.0, "0" * 64, result(TRIALS, Verdict.SAFE))
    return replace(claim(plan, host, TRIALS), row=row)


def test_losses_are_not_what_is_drawn(plan, ledger):
    """They are judged when they come, every one of them."""
    alpha = host("alpha")
    ledger.add(claim(plan, alpha, 1, Verdict.LOSSY))
    ledger.add(claim(plan, alpha, 2, Verdict.INCONCLUSIVE))
    ledger.add(claim(plan, alpha, 3))
    assert numbers(ledger.drawn(alpha, "seed")) == [3]


def test_each_host_owes_its_own_controls(plan, ledger):
    alpha, beta = host("alpha"), host("beta")
    ledger.add(claim(plan, alpha, 1))
    ledger.add(claim(plan, beta, 2))
    key, made = control(plan, alpha, Verdict.LOSSY)
    owed = list(ledger.owed(alpha))
    assert len(owed) == 2
    assert owed[0] == key
    ledger.add_control(key, made)
    assert list(ledger.owed(alpha)) == owed[1:]
    assert list(ledger.owed(beta)) == owed
    assert ledger.owed(host("gamma")) == {}


def test_a_host_whose_control_misbehaves_where_another_ones_behaves_is_named(plan, ledger):
    alpha, beta = host("alpha"), host("beta")
    key, blind = control(plan, alpha, Verdict.SAFE)
    ledger.add_control(key, blind)
    assert ledger.misbehaved() == []  # it may be the cell
    ledger.add_control(key, control(plan, beta, Verdict.SAFE)[1])
    assert ledger.misbehaved() == []
    _, seeing = control(plan, host("gamma"), Verdict.INCONCLUSIVE)
    ledger.add_control(key, replace(seeing, result=lossy_and_seen()))
    assert [who.name for who, _ in ledger.misbehaved()] == ["alpha", "beta"]
    assert "is SAFE, and had to be LOSSY" in ledger.misbehaved()[0][1]


def lossy_and_seen():
    """A loss that the cut itself has shown, and no analysis alone."""
    found = Finding(
        FindingKind.LOST, Verdict.LOSSY, "record 9 is gone", (LsnRange(first=9, last=9),)
    )
    return result(1, Verdict.LOSSY, 1).model_copy(update={"findings": (FindingRecord.of(found),)})


def test_of_each_control_the_host_counts_where_it_behaved_worst(plan, ledger):
    for name, seen in (("alpha", True), ("beta", False), ("gamma", True)):
        key, made = control(plan, host(name), Verdict.SAFE)
        ledger.add_control(key, replace(made, result=lossy_and_seen()) if seen else made)
    assert ledger.known()[key].verdict is Verdict.SAFE
    assert "on beta" in ledger.known()[key].name


def test_a_host_that_is_gone_leaves_the_losses_that_were_judged_here(plan, ledger):
    alpha = host("alpha")
    kept = claim(plan, alpha, 1, Verdict.LOSSY, judged=True)
    others = [claim(plan, alpha, 2, Verdict.LOSSY), claim(plan, alpha, 3)]
    for one in (kept, *others):
        assert ledger.add(one)
    ledger.take_back(alpha, "its worker ended", distrusted=False)
    assert [one.verdict for one in ledger.results(plan.cells[0])] == [Verdict.LOSSY]
    assert [one.place.removed for one in (kept, *others)] == [False, True, True]
    assert alpha.repeated == 2
    assert numbers_missing(ledger, plan) == list(range(2, TRIALS + 1))


def numbers_missing(ledger, plan):
    return [item.trial.number for item in ledger.missing(plan.cells[0])]


def test_of_a_host_that_is_not_believed_no_loss_is_shown_and_none_forgotten(plan, ledger):
    alpha = host("alpha")
    judged = claim(plan, alpha, 1, Verdict.LOSSY, judged=True)
    made_up = claim(plan, alpha, 2, Verdict.LOSSY)
    for one in (judged, made_up, claim(plan, alpha, 3)):
        ledger.add(one)
    ledger.take_back(alpha, "it lied", distrusted=True)
    first, second = ledger.results(plan.cells[0])
    for told in (first, second):
        assert (told.verdict, told.commits_lost, told.lost_lsns) == (Verdict.INCONCLUSIVE, 0, ())
        assert "alpha called it LOSSY, and is not believed: it lied" in told.findings[0].message
    assert not ledger.has_lost(plan.cells[0])
    assert made_up.place.written == [second]
    assert numbers_missing(ledger, plan) == list(range(3, TRIALS + 1))
    assert alpha.repeated == 1


def test_what_a_host_says_after_it_was_found_out_does_not_count(plan, ledger):
    alpha = host("alpha")
    alpha.state = "distrusted"
    assert not ledger.add(claim(plan, alpha, 1))
    assert ledger.results(plan.cells[0]) == []
    assert 1 in numbers_missing(ledger, plan)


def done(**change):
    record = json.dumps({"versions": {"program_sha256": "a" * 64}})
    made = Done(
        folder="runs/x/cells/honest/0001",
        files={"trial.json": record, "manifest.json": "", "verdict.json": ""},
        seconds=1.0,
        tries=1,
        outcomes=("SAFE",),
    )
    return made.model_copy(update=change)


def accepted(monkeypatch, said, programs=None):
    monkeypatch.setattr(claims, "_claimed", lambda *_: result(1, Verdict.SAFE))
    place = SimpleNamespace(relative="cells/honest/0001")
    folder = "runs/x/cells/honest/0001"
    return claims.accept(said, folder, None, place, programs or {})


def test_a_trial_that_was_tried_again_after_a_worker_died_is_accepted(monkeypatch):
    assert accepted(monkeypatch, done(tries=2)).verdict is Verdict.SAFE
    assert accepted(monkeypatch, done(), {"program_sha256": "a" * 64}).verdict is Verdict.SAFE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"outcomes": ("LOSSY", "SAFE")}, "one outcome, and it had LOSSY, then SAFE"),
        ({"outcomes": ("SAFE", "SAFE")}, "one outcome, and it had SAFE, then SAFE"),
        ({"outcomes": ("LOSSY",)}, "one outcome, and it had LOSSY"),
        ({"outcomes": ()}, "one outcome, and it had nothing"),
        ({"folder": "runs/x/cells/honest/0002"}, "its folder, or a file, has another name"),
        ({"files": {**done().files, "observation.json": ""}}, "or a file, has another name"),
    ],
)
def test_a_trial_has_one_outcome_and_is_the_one_that_was_ordered(monkeypatch, change, words):
    with pytest.raises(FalseClaim, match=words):
        accepted(monkeypatch, done(**change))


@pytest.mark.parametrize(
    ("name", "claimed", "honest"),
    [
        ("evidence_level", "live-only", False),
        ("control", "lying-disk", False),
        ("evidence_level", "recorded", True),
    ],
)
def test_what_follows_from_the_settings_is_no_claim(name, claimed, honest):
    first = Trial(1, 1, 1, Trigger(TriggerKind.ACKS, 1))
    job = TrialJob("s", "c", Parameters(), first, bytes(16))
    record = json.loads(job.as_record("0" * 32).model_dump_json())
    text = json.dumps(record | {name: claimed})
    seal = {"name": "trial.json", "size": len(text), "sha256": sha256(text.encode()).hexdigest()}
    told = result(1, Verdict.SAFE).model_copy(update={"binding": binding_of(json.loads(text)).name})
    files = {
        "trial.json": text,
        "manifest.json": json.dumps({"format": "powercut-manifest/1", "files": [seal]}),
        "verdict.json": told.model_dump_json(),
    }
    if honest:
        assert claims._claimed(files, job) == told
        return
    with pytest.raises(DamagedRecording, match=f"trial.json has another {name}"):
        claims._claimed(files, job)


@pytest.mark.parametrize("name", ["program_sha256", "program_folder_sha256"])
def test_another_program_or_none_is_not_the_one_that_was_carried_there(monkeypatch, name):
    with pytest.raises(FalseClaim, match=f"{name} is (none|a{{16}}), and b{{16}} was carried"):
        accepted(monkeypatch, done(), {name: "b" * 64})


def judged(monkeypatch, said, here):
    monkeypatch.setattr(claims, "verdict_of", lambda *_: here)
    monkeypatch.setattr(claims, "read_place", lambda _: None)
    trial = SimpleNamespace(read_verdict=lambda: said, relative="cells/honest/0001", path=None)
    claims.judge_again(trial, None)


SAFE, LOSSY = result(1, Verdict.SAFE), result(1, Verdict.LOSSY, 1)
UNKNOWN = result(1, Verdict.INCONCLUSIVE)


@pytest.mark.parametrize("both", [SAFE, LOSSY, UNKNOWN])
def test_the_same_judged_twice_is_believed(monkeypatch, both):
    judged(monkeypatch, both, both)


@pytest.mark.parametrize(
    ("said", "here"),
    [
        (SAFE, LOSSY),
        (LOSSY, SAFE),
        (UNKNOWN, SAFE),
        (SAFE, SAFE.model_copy(update={"commits_acked": 8})),
        (LOSSY, LOSSY.model_copy(update={"lost_lsns": (LsnRange(first=8, last=8),)})),
    ],
)
def test_what_comes_to_something_else_here_is_not_believed(monkeypatch, said, here):
    with pytest.raises(FalseClaim, match="judged here it is"):
        judged(monkeypatch, said, here)


@pytest.mark.parametrize("said", [SAFE, LOSSY])
def test_what_cannot_be_judged_here_shows_nothing_of_the_host(monkeypatch, said):
    with pytest.raises(HostError, match="cannot be judged here") as error:
        judged(monkeypatch, said, UNKNOWN)
    assert not isinstance(error.value, FalseClaim)
