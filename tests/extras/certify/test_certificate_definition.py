# SPDX-License-Identifier: Apache-2.0
"""A certificate of somebody's machine says what of it was not tested, wherever it is read."""

from __future__ import annotations

import json
from types import SimpleNamespace
from xml.etree import ElementTree as ET

import pytest
from certificate_maker import cells_of_yaml, certificate_of_cells

from powercut import __version__
from powercut.console import PlainConsole
from powercut.model.verdict import Verdict
from powercut.paths import command
from powercut_extras.certify.certificate import Certificate, Definition, LeftOutOf
from powercut_extras.certify.domain_verb import DomainChoice
from powercut_extras.certify.junit import certificate_junit
from powercut_extras.certify.page import certificate_html
from powercut_extras.certify.request import CertifyOptions
from powercut_extras.certify.terminal import print_certificate
from powercut_extras.certify.verb import _status
from powercut_extras.certify.verify import contradictions
from powercut_extras.certify.words import statement_of

CELLS = "powercut: 1\nname: domain-shop\ncells: [{name: vda-raw}, {name: vda-ext4}]\n"
IOTUNE = LeftOutOf(what="disk vda: iotune total_iops_sec=9", why="requests are held back")
MISSING = LeftOutOf(what="disk vdb", why="a device of the host that is passed through")
WHOLE = Definition(machine="shop", disks=("vda",), left_out=(IOTUNE,), differs=("no network",))
PART = WHOLE.model_copy(update={"disks_left_out": (MISSING,)})


def certificate(definition: Definition, verdict: Verdict = Verdict.SAFE) -> Certificate:
    change = {"verdict": verdict, "as_expected": verdict is Verdict.SAFE}
    cells = [cell.model_copy(update=change) for cell in cells_of_yaml(CELLS)]
    return certificate_of_cells(
        cells,
        definition=definition,
        as_expected=verdict is Verdict.SAFE and not definition.disks_left_out,
        statement=statement_of(cells, (), definition),
        not_tested=(),
        powercut=__version__,
    )


def printed(made: Certificate, capsys: pytest.CaptureFixture[str]) -> str:
    print_certificate(PlainConsole(width=120), made)
    return capsys.readouterr().out


def of_it(made: Certificate) -> set[str]:
    """Which of what rests on the definition contradicts it."""
    words = {one.partition(":")[0] for one in contradictions(made)}
    return words & {"as_expected", "statement"}


def test_what_a_certificate_says_follows_from_what_was_left_out():
    for made in (certificate(WHOLE), certificate(PART), certificate(PART, Verdict.LOSSY)):
        assert of_it(made) == set()
    part = certificate(PART)
    assert of_it(part.model_copy(update={"as_expected": True})) == {"as_expected"}
    assert of_it(part.model_copy(update={"definition": WHOLE})) == {"as_expected", "statement"}


@pytest.mark.parametrize(
    ("definition", "verdict", "status"),
    [
        (WHOLE, Verdict.SAFE, 0),
        (PART, Verdict.SAFE, 3),
        (WHOLE, Verdict.LOSSY, 1),
        (PART, Verdict.LOSSY, 1),
        (PART, Verdict.INCONCLUSIVE, 3),
    ],
)
def test_a_disk_that_was_left_out_is_no_pass(definition, verdict, status):
    assert _status(SimpleNamespace(certificate=certificate(definition, verdict))) == status


def test_what_was_left_out_is_said_in_the_terminal(capsys):
    said = printed(certificate(PART), capsys)
    assert "NOT TESTED disk vdb: a device of the host" in said
    assert "left out disk vda: iotune total_iops_sec=9: requests are held back" in said
    assert "shop: INCONCLUSIVE" in said
    assert "It says nothing of disk vdb, and so nothing of shop." in " ".join(said.split())
    assert "NOT TESTED" not in printed(certificate(WHOLE), capsys)


def test_nobody_expected_anything_of_somebodys_machine(tmp_path, capsys):
    made = certificate(WHOLE, Verdict.LOSSY)
    said = printed(made, capsys)
    assert "expected" not in said.lower().replace("behaved as expected", "")
    assert "shop: LOSSY" in said
    page = certificate_html(made, tmp_path)
    for word in ("Not as expected", "unexpected</span>", "the scenarios did not expect"):
        assert word not in page


def test_it_is_said_on_the_first_screen_of_the_page(tmp_path):
    page = certificate_html(certificate(PART), tmp_path)
    first = page.partition('<nav aria-label="On this page">')[0]
    assert 'class="answer INCONCLUSIVE"' in first
    assert "disk vdb not tested" in first
    assert "a device of the host that is passed through" in first
    assert "requests are held back" in first
    assert 'class="answer SAFE"' in certificate_html(certificate(WHOLE), tmp_path)


def test_it_is_in_the_json_and_in_junit():
    made = certificate(PART)
    read = json.loads(made.model_dump_json())["definition"]
    assert read["disks_left_out"][0]["what"] == "disk vdb"
    assert read["left_out"][0]["what"].startswith("disk vda: iotune")
    suites = ET.fromstring(certificate_junit(made))
    errors = [
        case.get("name") for case in suites.iter("testcase") if case.find("error") is not None
    ]
    assert errors == ["disk vdb"]
    assert [int(suite.get("errors", "")) for suite in suites] == [0, 1]
    assert "iotune" in "".join(out.text or "" for out in suites.iter("system-out"))


def test_the_command_that_repeats_it_names_the_definition(tmp_path):
    chosen = DomainChoice(None, tmp_path / "shop.xml", "qemu:///system")
    options = CertifyOptions(scenarios=("results/domains/shop.yaml",), domain=chosen.argv)
    given = f"--domain-xml {tmp_path / 'shop.xml'} --connect qemu:///system"
    assert options.command(7, ()) == f"{command()} certify {given} --seed 7"
