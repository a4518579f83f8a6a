# SPDX-License-Identifier: Apache-2.0
"""A certificate says whose machine it is about, how sure it is in three lines, and what is left
out by reason."""

from __future__ import annotations

from certificate_maker import cell_of, certificate_of_cells

from powercut.model.verdict import Verdict
from powercut.scenario.preset import all_presets
from powercut_extras.certify.certificate import NotTested
from powercut_extras.certify.certified import about, in_brief, untested
from powercut_extras.certify.page import certificate_html


def test_settings_of_a_product_are_not_the_product(tmp_path):
    preset = all_presets()[0]
    certificate = certificate_of_cells([cell_of(preset.name, Verdict.LOSSY)])
    ran, settings = about(certificate)
    assert ran.startswith("About ")
    assert ran.endswith(", as they ran here: no other version, and no other host.")
    assert settings == (
        f"With the settings of {preset.product}, none of which ran: not about these products."
    )
    assert settings in certificate_html(certificate, tmp_path)
    plain = certificate_of_cells([cell_of("a", Verdict.SAFE)])
    assert not any("With the settings" in one for one in about(plain))


def test_how_sure_it_is_takes_three_lines(tmp_path):
    certificate = certificate_of_cells([cell_of("a", Verdict.SAFE), cell_of("b", Verdict.LOSSY)])
    lines = in_brief(certificate)
    assert len(lines) == 3
    assert lines[0].startswith("1 SAFE setting: nothing acknowledged was lost in ")
    page = certificate_html(certificate, tmp_path)
    assert all(line in page for line in lines)
    assert page.index(lines[0]) < page.index('id="matrix"') < page.index(certificate.statement)
    none = certificate_of_cells([cell_of("b", Verdict.LOSSY)])
    assert in_brief(none)[0] == "No setting is SAFE."


def test_without_controls_nothing_vouches():
    cell = cell_of("a", Verdict.SAFE).model_copy(update={"controls": ()})
    assert in_brief(certificate_of_cells([cell]))[1].startswith("No controls were run")


def test_what_was_not_tested_is_told_by_reason(tmp_path):
    items = [
        NotTested(settings={"machine.bus": bus}, reason="no driver", combinations=number)
        for number, bus in enumerate(("ide", "nvme", "scsi"), 1)
    ]
    items.append(NotTested(reason="other hosts"))
    certificate = certificate_of_cells([cell_of("a", Verdict.SAFE)])
    certificate = certificate.model_copy(update={"not_tested": tuple(items)})
    first, second = untested(certificate)
    assert (first.reason, first.combinations, len(first.items)) == ("no driver", 6, 3)
    assert (second.reason, second.combinations) == ("other hosts", 1)
    assert in_brief(certificate)[2] == "7 combinations of settings not tested."
    assert certificate_html(certificate, tmp_path).count("no driver") == 1
