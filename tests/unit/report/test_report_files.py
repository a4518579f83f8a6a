# SPDX-License-Identifier: Apache-2.0
"""HTML and JUnit, and the drawing in the former."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from recording_view import view

from powercut.model.errors import HostError, UsageError
from powercut.model.verdict import Finding, FindingKind, LsnRange, Verdict
from powercut.report.junit import junit_xml
from powercut.report.page.telling import timeline_svg
from powercut.report.publish import recording_page, write_recording_page, write_reports
from powercut.report.terminal.story import last_moments
from powercut.store.view import RecordingView

MS = 1_000_000


def test_the_story_of_the_last_moments():
    assert [(moment.at // MS, moment.text) for moment in last_moments(view(), shown=4)] == [
        (5, "the disk takes a write of 4,096 bytes at 8,192; done after 500 µs"),
        (6, "the disk takes a flush and ignores it; done after 500 µs"),
        (7, "the workload acknowledges record 2"),
        (
            8,
            "the disk takes a write of 512 bytes at 16,384 with FUA; it is not done before the cut",
        ),
        (9, "THE CUT: the disk loses its volatile cache (policy drop)"),
    ]


def test_the_drawing_is_well_formed_and_says_in_words_what_it_shows():
    drawing = timeline_svg(view(), [LsnRange(2, 2)], "a <b>")
    root = ET.fromstring(drawing)
    assert root.attrib["aria-label"] == (
        "a <b>: 2 records acknowledged in 8 ms; 3 writes and 2 flushes at the disk before the cut"
    )
    texts = {element.text for element in root.iter("text")}
    assert {"lost: 1 record, LSN 2", "flushes 2", "writes 3", "power cut", "8 ms"} <= texts
    numbers = re.findall(r' (?:x|y|x1|x2|width|height)="([^"]+)"', drawing)
    assert all(float(number) >= 0 for number in numbers)


def test_nothing_to_draw_is_no_drawing():
    empty = RecordingView(None, None, None, None, ("gone",))
    assert timeline_svg(empty, [], "x") == ""
    assert last_moments(empty) == []


class Tags(HTMLParser):
    """Checks that tags close in order, and collects what a page would load."""

    VOID = ("meta", "link", "img", "br", "hr", "rect", "line", "path", "polyline")

    def __init__(self) -> None:
        super().__init__()
        self.stack: list[str] = []
        self.loads: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        names = dict(attrs)
        self.loads += [str(names[key]) for key in ("src", "href", "xlink:href") if key in names]
        assert tag != "script"
        if tag not in self.VOID:
            self.stack.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.stack.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_html_report_is_one_file_without_network(made):
    path = write_reports(made.directory)
    page = path.read_text()
    tags = Tags()
    tags.feed(page)
    tags.close()
    assert tags.stack == []
    assert [link for link in tags.loads if not link.startswith("#")] == []
    assert set(tags.loads) == {"#words"}
    assert 'id="words"' in page
    assert "http" not in page.replace("http-equiv", "")
    assert "@import" not in page
    assert "url(" not in page.replace("url(#hatch)", "")
    words = " ".join(tags.text.split())
    assert "As expected: ✓ 1 SAFE" in words
    assert "✗ 2 LOSSY 3 power cuts in 3 cells, 906 acknowledged records, 7.3 s" in words
    assert "✗ LOSSY" in words
    assert "✓ SAFE" in words
    assert "--seed 4711 --only lying" in words
    # Text of the environment is text, not markup.
    assert "system: <b>" in words
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_the_report_puts_the_unexpected_first(make):
    torn = Finding(FindingKind.TORN, Verdict.LOSSY, "torn <i>", (LsnRange(200, 200),))
    lost = Finding(FindingKind.LOST, Verdict.LOSSY, "lost", (LsnRange(1, 302),))
    made = make((), (lost,), (lost,))
    assert "Not as expected" not in write_reports(made.directory).read_text()
    made = make((torn,), (lost,), (lost,))
    page = write_reports(made.directory).read_text()
    assert "Not as expected" in page
    assert "torn &lt;i&gt;" in page
    assert page.index("<h3>honest</h3>") < page.index("<h3>lying</h3>")


def test_junit(make):
    hang = Finding(FindingKind.INCOMPLETE, Verdict.INCONCLUSIVE, "hung\x1b[0m")
    lost = Finding(FindingKind.LOST, Verdict.LOSSY, "lost", (LsnRange(1, 302),))
    made = make((hang,), (lost,), ())
    suite = ET.fromstring(junit_xml(made.run))
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == (
        "3",
        "1",
        "1",
    )
    honest, lying, no_sync = suite.findall("testcase")
    assert honest.find("error") is not None
    assert "hung�[0m" in (honest.findtext("error") or "")
    assert lying.find("failure") is None
    assert lying.find("error") is None
    failure = no_sync.find("failure")
    assert failure is not None
    assert failure.attrib["message"] == "SAFE, expected LOSSY"
    properties = {p.attrib["name"]: p.attrib["value"] for p in lying.iter("property")}
    assert properties["lost_lsns"] == "1-302"
    assert properties["verdict"] == "lossy"


@pytest.mark.parametrize("found", [{}, {"recording": "no_such_module:recording_html"}])
def test_without_the_extra_a_recording_has_no_page_and_nothing_fails(tmp_path, monkeypatch, found):
    monkeypatch.setattr("powercut.model.extras.registered", lambda _: found)
    write_recording_page(tmp_path)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises((UsageError, HostError), match=r"not installed|cannot be used"):
        recording_page(tmp_path)
