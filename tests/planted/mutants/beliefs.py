# SPDX-License-Identifier: Apache-2.0
"""Planted in how far a controller believes the hosts of a cluster."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import BEGUN, BELIEF

_C = "harness/powercut/cluster"
belief = planter("belief", BELIEF)
begun = planter("begun", BEGUN)

MUTANTS: tuple[Mutant, ...] = (
    *belief(
        f"{_C}/ledger.py",
        (
            "one-in-a-hundred",
            At("", "0.05"),
            "0.01",
            "one claim in a hundred is judged again, not one in twenty",
        ),
        (
            "few-claims-never-judged",
            At("Ledger.drawn", "math.ceil(JUDGED_PART * len(mine))"),
            "int(JUDGED_PART * len(mine))",
            "a host with fewer than twenty claims is believed without a look",
        ),
        (
            "drawing-known-to-hosts",
            At("Ledger.drawn", "random.Random(f'{seed} {host.name} {name}')"),
            "random.Random(f'{host.name} {name}')",
            "a host can know which of its claims will be judged again",
        ),
        (
            "first-ones-judged",
            At(
                "Ledger.drawn",
                "random.Random(f'{seed} {host.name} {name}').sample(mine, count)",
            ),
            "mine[:count]",
            "it is always the first claims of a host that are judged again",
        ),
        (
            "losses-drawn-alone",
            At("Ledger.drawn", "claim.result.verdict in _SOUND"),
            "claim.result.verdict not in _SOUND",
            "claims that all is well are never judged again",
        ),
        (
            "judged-again-for-ever",
            At("Ledger.drawn", "not claims[n].judged"),
            "True",
            "a claim that was judged is judged again and again",
        ),
        (
            "controls-of-others-vouch",
            At("Ledger.owed", "(host.name, k) not in self._controls"),
            "all(k != key for _, key in self._controls)",
            "a host whose rig is blind is vouched for by another one's controls",
        ),
        (
            "best-control-counts",
            At("Ledger.known", "outcome.verdict is not _control(claim).expected"),
            "outcome.verdict is _control(claim).expected",
            "a control counts where it behaved, whatever it did on another host",
        ),
        (
            "misbehaviour-forgiven",
            At("Ledger.misbehaved", "not good"),
            "False",
            "a host whose control misbehaves where that of others behaves is believed",
        ),
        (
            "nobody-behaves-all-distrusted",
            At("Ledger.misbehaved", "any((good for _, good, _ in row))"),
            "True",
            "hosts are distrusted for a control that behaves on none",
        ),
        (
            "unjudged-loss-of-the-lost",
            At("Ledger.take_back", "lossy and claim.judged and (not distrusted)"),
            "lossy and (not distrusted)",
            "a loss that nobody here has judged counts after its host is gone",
        ),
        (
            "loss-of-a-liar-shown",
            At("Ledger.take_back", "lossy and claim.judged and (not distrusted)"),
            "lossy and claim.judged",
            "a loss counts although its host is not believed",
        ),
        (
            "loss-of-a-liar-forgotten",
            At("Ledger.take_back", "distrusted and lossy"),
            "False",
            "a loss of a host that is not believed is made again until it is SAFE",
        ),
        (
            "doubtful-is-safe",
            At(
                "_doubtful",
                "{'verdict': Verdict.INCONCLUSIVE, 'findings': (FindingRecord.of(finding),), 'commits_lost': 0, 'lost_lsns': (), 'loss': None}",
            ),
            "{'verdict': Verdict.SAFE, 'findings': (FindingRecord.of(finding),), 'commits_lost': 0, 'lost_lsns': (), 'loss': None}",
            "a loss of a host that is not believed is SAFE",
        ),
        (
            "found-out-and-counted",
            At("Ledger.add", "return claim.host.present"),
            "return True",
            "what a host says after it was found out is told as if it counted",
        ),
        (
            "judged-for-another",
            At("Ledger.set_judged", "counts = claim.host.present"),
            "counts = True",
            "what was judged of a host that was found out vouches for another's claim of the trial",
        ),
    ),
    *belief(
        f"{_C}/claims.py",
        (
            "second-outcome-forgiven",
            At("accept", "done.outcomes != (result.verdict.name,)"),
            "result.verdict.name not in done.outcomes",
            "a host may repeat a LOSSY trial until it is SAFE",
        ),
        (
            "last-outcome-counts",
            At("accept", "done.outcomes != (result.verdict.name,)"),
            "done.outcomes[-1:] != (result.verdict.name,)",
            "of the outcomes of a trial the last one counts",
        ),
        (
            "folder-of-another-trial",
            At("accept", "done.folder != expected or set(done.files) - set(RESULT_FILES)"),
            "set(done.files) - set(RESULT_FILES)",
            "a claim may lie in the folder of another trial",
        ),
        (
            "program-unknown-passes",
            At("_require_program", "made.get(name) != digest"),
            "made.get(name, digest) != digest",
            "a trial that does not say which program made it is believed",
        ),
        (
            "acks-not-compared",
            At("judge_again", "own != (said.verdict, said.commits_acked, said.lost_lsns)"),
            "own[::2] != (said.verdict, said.lost_lsns)",
            "a host may claim other acknowledgements than its recording has",
        ),
        (
            "lost-records-not-compared",
            At("judge_again", "own != (said.verdict, said.commits_acked, said.lost_lsns)"),
            "own[:2] != (said.verdict, said.commits_acked)",
            "a host may name other records as lost than its recording shows",
        ),
        (
            "judged-verdict-not-compared",
            At("judge_again", "own != (said.verdict, said.commits_acked, said.lost_lsns)"),
            "own[1:] != (said.commits_acked, said.lost_lsns)",
            "a host may say another verdict than its recording has",
        ),
        (
            "unjudgeable-is-a-lie",
            At(
                "judge_again",
                "result.verdict is Verdict.INCONCLUSIVE and said.verdict is not Verdict.INCONCLUSIVE",
            ),
            "False",
            "a host is not believed since this one cannot judge",
        ),
    ),
    *begun(
        f"{_C}/run.py",
        (
            "again-believed",
            At("ClusterRun._claim", "result.verdict is Verdict.LOSSY or done.tries > 1"),
            "result.verdict is Verdict.LOSSY",
            "a trial that a host began until it came out well is believed without a look",
        ),
    ),
    *begun(
        f"{_C}/claims.py",
        (
            "tries-not-kept",
            At("keep", "tries=done.tries"),
            "tries=1",
            "how often a host began a trial does not lie beside its evidence",
        ),
    ),
)
