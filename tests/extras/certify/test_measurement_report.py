# SPDX-License-Identifier: Apache-2.0
"""Measurements in a terminal: what they say, and with which cell they compare."""

from __future__ import annotations

import io

from rich.console import Console

from powercut.scenario.settings import DiskModel, Parameters
from powercut.store.trial_result import Latency
from powercut_extras.certify.measurement import (
    BioCounts,
    Cost,
    Measurement,
    RequestCounts,
    WireAccount,
)
from powercut_extras.certify.terminal_measurement import (
    blind_line,
    cost_lines,
    print_measurements,
    safest_of,
)


def counts(writes: int, fua: int | None, flushes: int, **kinds: int) -> RequestCounts:
    written = 4096 * writes
    return RequestCounts(
        writes=writes, fua_writes=fua, flushes=flushes, written_bytes=written, kinds=kinds
    )


def cost(per_s: float, disk: DiskModel = DiskModel.HDD_7200) -> Cost:
    latency = Latency(
        commits=50, p50_us=8400, p95_us=9000, p99_us=9100, p99_9_us=9200, max_us=93000
    )
    return Cost(
        disk=disk,
        commits=50,
        seconds=50 / per_s,
        commits_per_s=per_s,
        latency=latency,
        histogram=((9.0, 10), (8703.0, 39), (2_000_000.0, 1)),
        medium_limit_per_s=120.0 if disk is DiskModel.HDD_7200 else None,
    )


def measurement(cell: str, flushes: int, per_s: float, ends_at: str = "") -> Measurement:
    wire = WireAccount(
        commits=50,
        committed_bytes=50 * 4096,
        asked=BioCounts(flushes=50, fua_writes=0, kinds={"flush": 50, "write": 50}),
        guest=counts(50, 0, 50, WS=50, FF=50),
        hypervisor=counts(50, None, 50),
        disk=counts(50, 0, flushes),
        flush_ends_at=ends_at,
        because="of 50 flushes none reached the disk" if ends_at else "",
    )
    costs = (cost(per_s), cost(2 * per_s, DiskModel.NONE), cost(per_s, DiskModel.SATA_SSD_PLP))
    return Measurement(scenario="s", cell=cell, parameters=Parameters(), wire=wire, costs=costs)


SAFE, SAFER = measurement("safe", 50, 110), measurement("safer", 100, 55)
LYING = measurement("lying", 0, 1200, "hypervisor")


def printed(*measurements: Measurement) -> str:
    output = io.StringIO()
    print_measurements(Console(file=output, width=80), measurements)
    return output.getvalue()


def test_the_safest_cell_keeps_most_promises_and_no_liar_is_it():
    assert safest_of([SAFE, LYING, SAFER]) is SAFER
    assert safest_of([LYING]) is None
    in_trouble = SAFER.model_copy(update={"trouble": "the guest was silent"})
    assert safest_of([SAFE, in_trouble]) is SAFE


def test_who_holds_flushes_back_is_said_with_the_counts():
    text = printed(SAFE, LYING)
    assert "! flushes end at the hypervisor: of 50 flushes none reached the disk" in text
    assert text.count("every commit is covered") == 1
    assert "2.00 requests a commit, 1.00 bytes for each that was committed" in text
    assert "WS 50, FF 50" in text


def test_costs_stand_beside_those_of_the_safest_cell():
    text = printed(SAFER, LYING)
    assert "22 x" in text
    assert text.count("beside") == 1, "it is not compared with itself"


def test_more_commits_than_the_medium_can_make_durable_are_a_symptom():
    assert cost_lines(SAFE) == []
    (line,) = cost_lines(LYING)
    assert line.startswith("too fast: 1,200 commits a second on hdd-7200, which can make 120")
    assert cost(125).too_fast is False, "a guest's clock is no better than that"
    assert cost(127).too_fast is True


def test_a_host_that_is_too_slow_to_see_says_so():
    assert blind_line(SAFE) == ""
    slow = measurement("slow", 0, 50, "hypervisor")
    assert cost_lines(slow) == []
    assert blind_line(slow) == (
        "this host makes 100 commits a second at most, whatever the disk: the rate could not"
        " show a missing flush on hdd-7200"
    )


def test_a_table_fits_a_terminal():
    text = printed(SAFER, LYING, measurement("fast", 0, 12_345, "disk"))
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "sata-ssd-plp" in text
    assert "…" not in text


def test_what_could_not_be_measured_is_said():
    none = Measurement(scenario="s", cell="c", parameters=Parameters(), trouble="no guest came")
    assert "trouble: no guest came" in printed(none)


def test_a_measurement_survives_its_file():
    assert Measurement.model_validate_json(LYING.model_dump_json()) == LYING
