# SPDX-License-Identifier: Apache-2.0
"""Known bugs as small programs: found by one state of each group, and their honest twins silent."""

from __future__ import annotations

from itertools import islice

import pytest

from bench.known_bugs.table import FAULTS
from bench.representatives import UNIFORM, states_of
from powercut.crash.legality import why_illegal
from powercut.crash.shapes import POLICY

FOUND_WITHIN = 200
HONEST = 15


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_known_bug_is_found_and_its_honest_twin_is_silent(fault):
    case = fault.faulty
    for state in islice(states_of(case, POLICY, 1), FOUND_WITHIN):
        if case.loses(state):
            assert why_illegal(case.space, state) == []
            break
    else:
        pytest.fail(f"not found in {FOUND_WITHIN} states")
    for way in (POLICY, UNIFORM):
        for state in islice(states_of(fault.honest, way, 1), HONEST):
            assert not fault.honest.loses(state), (way, state)


def test_there_are_enough_of_them_and_each_has_a_source():
    known = [fault for fault in FAULTS if fault.family != "planted"]
    assert len(known) >= 20
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
    assert all(fault.source.startswith(("https://", "docs/")) for fault in FAULTS)
