# SPDX-License-Identifier: Apache-2.0
"""A certificate that a stranger wrote is shown, drawn and examined, or refused."""

from __future__ import annotations

import copy
import io
import json

import pytest
from certificate_maker import cell_of, certificate_of_cells
from hostile import SLICES, fuzz, numbers, survives
from hypothesis import strategies as st

from powercut.console import PlainConsole
from powercut.model.verdict import Verdict
from powercut_extras.certify.order import CERTIFICATE, read_certificate
from powercut_extras.certify.page import certificate_html
from powercut_extras.certify.terminal import print_certificate
from powercut_extras.certify.verify import contradictions

values = st.one_of(
    numbers,
    numbers.map(lambda number: -number),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from([None, True, [], {}, "<script>", "\x1b[2J", "../x", "safe", "9" * 30 + "h"]),
)


def places(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from places(inner, (*path, key))


def changed(value, changes):
    made = copy.deepcopy(value)
    for path, new in changes:
        inner = made
        for key in path[:-1]:
            inner = inner[key] if isinstance(inner, dict | list) and inner else {}
        if isinstance(inner, dict) or (isinstance(inner, list) and len(inner) > path[-1]):
            inner[path[-1]] = new
    return made


@pytest.mark.parametrize("examples", SLICES)
def test_any_values_are_shown_or_refused(tmp_path, examples):
    cells = [cell_of("a", Verdict.SAFE), cell_of("b", Verdict.LOSSY, explanation="lies")]
    honest = json.loads(certificate_of_cells(cells).model_dump_json())
    path = tmp_path / CERTIFICATE

    def check(changes):
        path.write_text(json.dumps(changed(honest, changes)))

        def use():
            certificate = read_certificate(path)
            list(contradictions(certificate))
            page = certificate_html(certificate, tmp_path)
            assert "<script" not in page
            out = io.StringIO()
            print_certificate(PlainConsole(file=out), certificate)
            assert "\x1b" not in out.getvalue()

        survives(use)

    one = st.tuples(st.sampled_from(sorted(places(honest), key=str)), values)
    fuzz(st.lists(one, min_size=1, max_size=2), check, examples)
