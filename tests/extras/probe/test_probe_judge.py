# SPDX-License-Identifier: Apache-2.0
"""What follows from rates, case by case."""

from __future__ import annotations

import pytest

from powercut_extras.probe.judge import (
    Kind,
    Medium,
    Method,
    Outcome,
    Pattern,
    Rate,
    judge,
    limit_of,
)

OK, TOO_GOOD, UNKNOWN = Outcome.PLAUSIBLE, Outcome.TOO_GOOD, Outcome.UNKNOWN


def rates(pattern: Pattern = Pattern.OVERWRITE, **per_s: float) -> list[Rate]:
    return [Rate(Method[name.upper()], pattern, value) for name, value in per_s.items()]


HDD = Medium(Kind.HDD_7200, "given", write_cache=True)
NO_CACHE = Medium(Kind.HDD_7200, "given", write_cache=False)


@pytest.mark.parametrize(
    ("name", "medium", "measured", "outcome"),
    [
        # 22 fsync/s and 565 O_DIRECT writes/s in VirtualBox 4.0.4 over two mirrored disks of
        # 7200 rpm without write cache (P. Zaitsev, "Virtualization and IO Modes = Extra
        # Complexity", Percona, 2011).
        ("VirtualBox", NO_CACHE, rates(fsync=22, direct=565), TOO_GOOD),
        # The same figures on a disk that declares its volatile cache are in order.
        ("VirtualBox, cache declared", HDD, rates(fsync=22, direct=565), OK),
        (
            "VirtualBox, nobody knows",
            Medium(Kind.HDD_7200),
            rates(fsync=22, direct=565),
            UNKNOWN,
        ),
        ("honest disk, cache on", HDD, rates(fdatasync=118, fsync=61, direct=5200), OK),
        ("honest disk, cache off", NO_CACHE, rates(fdatasync=119, direct=119.6), OK),
        ("a flush that does nothing", HDD, rates(fdatasync=5100, direct=5200), TOO_GOOD),
        ("one sync of several lies", HDD, rates(fdatasync=118, o_dsync=900), TOO_GOOD),
        ("slowest disk, fast for it", Medium(Kind.HDD_5400), rates(fsync=118), TOO_GOOD),
        ("fast disk", Medium(Kind.HDD_15K), rates(fsync=249), OK),
        ("faster than fast", Medium(Kind.HDD_15K), rates(fsync=320), TOO_GOOD),
        ("battery", Medium(Kind.HDD_7200, plp=True), rates(fsync=9000, direct=9500), OK),
        ("unknown speed, slow", Medium(Kind.HDD), rates(fsync=120), OK),
        ("unknown speed, between", Medium(Kind.HDD), rates(fsync=240), UNKNOWN),
        ("unknown speed, too fast", Medium(Kind.HDD), rates(fsync=400), TOO_GOOD),
        ("appends on a disk", HDD, rates(Pattern.APPEND, fsync=5000), UNKNOWN),
        (
            "copy on write on a disk",
            Medium(Kind.HDD_7200, copy_on_write=True),
            rates(fsync=900),
            UNKNOWN,
        ),
        ("SSD with PLP", Medium(Kind.NVME, plp=True), rates(fdatasync=52_000, direct=55_000), OK),
        ("SSD with PLP, link", Medium(Kind.SATA_SSD, plp=True), rates(fsync=140_000), TOO_GOOD),
        ("SSD without", Medium(Kind.NVME, plp=False), rates(fdatasync=1100), OK),
        ("SSD without, quick", Medium(Kind.NVME, plp=False), rates(fdatasync=5000), UNKNOWN),
        ("SSD without, lies", Medium(Kind.NVME, plp=False), rates(fdatasync=30_000), TOO_GOOD),
        ("SSD, who knows", Medium(Kind.NVME), rates(fdatasync=30_000), UNKNOWN),
        ("SSD, who knows, slow", Medium(Kind.SATA_SSD), rates(fdatasync=1500), OK),
        ("SSD, in memory", Medium(Kind.NVME), rates(fdatasync=400_000), TOO_GOOD),
        ("SSD, appends count", Medium(Kind.NVME), rates(Pattern.APPEND, fsync=3e5), TOO_GOOD),
        ("unknown, slower than any", Medium(), rates(fsync=80), OK),
        ("unknown", Medium(), rates(fsync=1200), UNKNOWN),
        ("unknown, in memory", Medium(), rates(fsync=300_000), TOO_GOOD),
        ("memory, slow", Medium(Kind.MEMORY), rates(fsync=10), TOO_GOOD),
        ("nothing measured", HDD, [], UNKNOWN),
        ("no sync measured", HDD, rates(buffered=400_000, direct=60), UNKNOWN),
        ("buffered is never judged", HDD, rates(buffered=400_000, fsync=100), OK),
    ],
)
def test_outcomes(name, medium, measured, outcome):
    assert judge(measured, medium).outcome is outcome, name


def test_the_numbers_of_the_virtualbox_report_are_named():
    said = " ".join(judge(rates(fsync=22, direct=565), NO_CACHE).reasons)
    assert "fsync came back 22 times a second" in said
    assert "O_DIRECT alone wrote 565 times a second" in said
    assert "turns 120 times a second" in said
    assert "those writes were completed before they were written" in said


def test_what_ends_in_a_declared_cache_is_said_but_not_held_against_the_disk():
    judgement = judge(rates(fdatasync=118, direct=5200), HDD)
    assert judgement.rows[1].remark == "ends in a cache"
    assert judgement.rows[1].outcome is None
    assert "without a sync they are not durable" in " ".join(judgement.reasons)


def test_a_free_sync_is_pointed_out_where_nothing_can_be_told():
    said = " ".join(judge(rates(direct_fdatasync=9600, direct=10_000), Medium()).reasons)
    assert "takes hardly longer than without" in said
    said = " ".join(judge(rates(direct_fdatasync=900, direct=10_000), Medium()).reasons)
    assert "hardly" not in said


def test_the_worst_way_is_named_not_the_fastest():
    # 130/s is within the tolerance for overwriting; only the O_DSYNC rate is not.
    judgement = judge(rates(fdatasync=130, o_dsync=151), HDD)
    assert judgement.outcome is TOO_GOOD
    assert judgement.reasons[0].startswith("O_DSYNC came back 151 times a second")


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("plp", [None, True, False])
def test_limits_are_in_order_and_say_why(kind, plp):
    limit = limit_of(Medium(kind, plp=plp))
    assert 0 <= limit.plausible_per_s <= limit.impossible_per_s
    assert limit.because


def test_more_knowledge_never_makes_the_impossible_possible():
    """Power-loss protection aside, a known kind allows no more than an unknown one."""
    unknown = limit_of(Medium())
    for kind in set(Kind) - {Kind.MEMORY, Kind.UNKNOWN}:
        assert limit_of(Medium(kind)).impossible_per_s <= unknown.impossible_per_s


def test_suspicion_weighs_more_than_ignorance():
    assert Outcome.worst([OK, UNKNOWN, TOO_GOOD]) is TOO_GOOD
    assert Outcome.worst([OK, UNKNOWN]) is UNKNOWN
    assert Outcome.worst([]) is UNKNOWN
    assert [outcome.value for outcome in (OK, TOO_GOOD, UNKNOWN)] == [0, 1, 3]


@pytest.mark.parametrize(
    ("per_s", "said"),
    [
        (200, None),
        (1200, "impossible on a disk that turns. Say"),
        (11_400, "impossible on a disk that turns or an SSD without power-loss protection. Say"),
    ],
)
def test_where_nothing_is_known_it_says_what_it_cannot_be(per_s, said):
    (reason, *_) = judge(rates(fdatasync=per_s), Medium()).reasons
    assert "--medium" in reason
    assert (said is None and "impossible" not in reason) or (said and said in reason)
