# SPDX-License-Identifier: Apache-2.0
"""The pages in a real browser, as wide as a telephone, a tablet, a screen and a sheet of paper.

A script in a copy of the page measures it (the pages have none): whatever reaches beyond the edge,
where the verdict stands, how large the smallest letters are.
"""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from certificate_maker import cells_of_yaml, certificate_of_cells, cost_of
from chromium import Browser, browser_in
from recording_view import view
from small_images import png

from powercut.model.verdict import LsnRange, Verdict
from powercut.report.page.run import html_report
from powercut.report.page.sequence import loss_svg
from powercut.report.page.telling import timeline_svg
from powercut.store.host_load import HostLoad
from powercut.store.loss_story import LossStep, LossStory
from powercut_extras.certify.issuer import Issuer, logo_of
from powercut_extras.certify.page import certificate_html
from powercut_extras.pages.browse import index_html
from powercut_extras.pages.history_page import history_html
from powercut_extras.pages.history_reader import read_history

WIDTHS = {420: 800, 800: 1000, 1400: 900}
"""Widths in pixels, and the height of a screen as wide."""

PAPER = 696
"""Pixels (of 1/96 inch) between the margins of a sheet of A4."""

LETTERS_MIN = 9.0
"""Pixels of the smallest letters."""

SCRIPT = """<script>addEventListener("load", () => {
const seen = element => element.checkVisibility();
const name = element => element.tagName + "." + element.getAttribute("class");
const all = [...document.body.querySelectorAll("*")].filter(seen);
const inSvg = element => element.closest("svg");
const letters = all.filter(element => [...element.childNodes].some(
    node => node.nodeType == 3 && node.textContent.trim())).map(element => {
  const scale = inSvg(element) ? element.getScreenCTM().a : 1;
  return [parseFloat(getComputedStyle(element).fontSize) * scale, name(element)];
}).sort((a, b) => a[0] - b[0]);
const beyond = all.filter(e => !inSvg(e) || e.tagName == "svg").filter(
    e => e.getBoundingClientRect().right > innerWidth + 1).map(name);
const bottom = selector => {
  const first = all.find(element => element.matches(selector));
  return first ? first.getBoundingClientRect().bottom : null;
};
parent.postMessage({
  width: innerWidth, needs: document.documentElement.scrollWidth, beyond: beyond,
  answer: bottom(".answer b"), verdict: bottom(".results .chip, .use b, td .chip"),
  letters: letters[0], text: document.body.innerText}, "*");
});</script>"""

FRAMES = """<!doctype html><meta charset="utf-8"><script>
addEventListener("message", message => {
  const out = document.createElement("pre");
  out.textContent = JSON.stringify(message.data); document.body.append(out);
});</script><body>"""
"""A window cannot be as narrow as a telephone; a frame in it can."""

REPR = re.compile(r"[\[{(]'|[:=,([] ?None\b|\b(?:True|False)\b|datetime\.|<[\w.]+ object|\w+\(\w+=")
"""What Python writes for itself, and never for a person."""


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return browser_in(tmp_path)


def measure(browser: Browser, *pages: tuple[str, int, int]) -> list[dict[str, Any]]:
    """What the script finds in each of `pages`: HTML, width and height of its frame."""
    frames = FRAMES
    for number, (html, width, height) in enumerate(pages):
        path = browser.folder / f"page-{number}.html"
        path.write_text(html.replace("</body>", SCRIPT + "</body>"))
        style = f"border: 0; width: {width}px; height: {height}px"
        frames += f'<iframe src="{path.name}" style="{style}"></iframe>'
    page = browser.folder / "frames.html"
    page.write_text(frames)
    dom, console = browser(page, "--dump-dom", "--virtual-time-budget=5000")
    assert console == ""
    found = [json.loads(unescape(text)) for text in re.findall(r"<pre>(.*?)</pre>", dom, re.DOTALL)]
    by_width = {one["width"]: one for one in found}
    return [by_width[width] for _, width, _ in pages]


def on_paper(html: str) -> str:
    """The page as it is laid out on paper, for a screen as wide as its text."""
    return html.replace("@media print", "@media all").replace("max-width: 46rem", "max-width: 1px")


def story() -> LossStory:
    texts = ("the workload announces record 300", "the disk takes write 812 with record 300: "
             "4,096 bytes at 17,248,256", "record 300 is acknowledged as durable, although no "
             "flush has reached the disk since its write", "the power is cut, 6.1 ms after the ack",
             "after recovery record 300 is gone")  # fmt: skip
    signs = (("workload", "point"), ("write", "begin"), ("workload", "ack"), ("power", "cut"),
             ("workload", "gone"))  # fmt: skip
    steps = tuple(
        LossStep(at_ns=number * 1_000_000, lane=lane, sign=sign, text=text)
        for number, ((lane, sign), text) in enumerate(zip(signs, texts, strict=True))
    )
    return LossStory(lsn=300, start_ns=0, steps=steps)


@pytest.fixture
def report(made) -> str:
    environment = {
        "host": {"cpus": 2, "kernel": "6.1.0-42-cloud-amd64", "system": "Debian"},
        "selection": {"only": [], "trials": None, "defaults": {"disk.model": "typical"}},
        "sessions": [{"started": "2026-11-22T06:06:39+00:00", "load": {"others": 0.5}}] * 2,
        "accelerator": {"name": "tcg", "reason": "no KVM", "proved": False, "of": None},
        "versions": [{"qemu_version": "7.2.22", "qemu_sha256": "1493008b" * 8, "machine": ["a"]}],
        "seed": 4711,
    }
    made.directory.write_environment(environment)
    load = HostLoad(seconds=9, processors=2, average_before=4, stolen=0.1, others=0.5)
    html = html_report(made.directory, made.run.model_copy(update={"load": load}))
    drawings = loss_svg(story()) + timeline_svg(view(), (LsnRange(1, 2),), "lying")
    # The run is made by hand and has no disk log: its drawings are put in.
    return html.replace("<pre>", f'<div class="scroll">{drawings}</div><pre>', 1)


@pytest.fixture
def certificate(tmp_path: Path) -> str:
    cells = cells_of_yaml(
        "powercut: 1\nname: some\nmatrix:\n"
        "  machine.bus: [virtio-blk, ide, nvme]\n  machine.cache: [none, directsync, unsafe]\n"
    )
    cells = [cell.model_copy(update={"costs": (cost_of(1.0, 700),)}) for cell in cells]
    lost = {"verdict": Verdict.LOSSY, "lost": 300, "explanation": "hypervisor: it drops flushes",
            "cause": "hypervisor: it drops flushes"}  # fmt: skip
    cells[2] = cells[2].model_copy(update=lost)
    cells[3] = cells[3].model_copy(update={"verdict": Verdict.INCONCLUSIVE, "explanation": "hung"})
    issuer = Issuer(name="Example Ltd", contact="ask@example.org", logo=logo_of(png(400, 90)))
    made = certificate_of_cells(cells, heading="Storage of cluster B", issuer=issuer)
    return certificate_html(made, tmp_path)


@pytest.fixture
def history(tmp_path: Path) -> str:
    for number, verdict in enumerate((Verdict.SAFE, Verdict.LOSSY)):
        cells = cells_of_yaml("powercut: 1\nname: some\nmatrix: {machine.bus: [ide, nvme]}\n")
        cells[0] = cells[0].model_copy(update={"verdict": verdict, "explanation": "x"})
        folder = tmp_path / "certify" / "quick" / f"n{number}"
        folder.mkdir(parents=True)
        made = certificate_of_cells(cells, started=f"2026-11-2{number}T01:00:00+00:00")
        (folder / "certificate.json").write_text(made.model_dump_json())
    return history_html(read_history(tmp_path), tmp_path)


@pytest.mark.parametrize("page", ["report", "certificate", "history"])
def test_a_page_is_legible_at_every_width(browser: Browser, page: str, request):
    html = request.getfixturevalue(page)
    screens = [(html, width, height) for width, height in WIDTHS.items()]
    *seen, paper = measure(browser, *screens, (on_paper(html), PAPER, 2000))
    for one, (_, width, height) in zip(seen, screens, strict=True):
        assert one["needs"] <= width, (width, one["beyond"])
        assert one["letters"][0] >= LETTERS_MIN, (width, one["letters"])
        assert REPR.search(one["text"]) is None, REPR.search(one["text"])
        if page != "history":
            assert one["answer"] < height / 2, width
            assert one["verdict"] < height, width
    assert paper["beyond"] == []
    assert paper["letters"][0] >= LETTERS_MIN / 96 * 72, paper["letters"]


def test_the_index_of_all_results_is_legible(browser: Browser, made):
    html = index_html(made.directory.path.parent.parent)
    screens = [(html, width, height) for width, height in WIDTHS.items()]
    for one, (_, width, height) in zip(measure(browser, *screens), screens, strict=True):
        assert one["needs"] <= width, (width, one["beyond"])
        assert one["verdict"] < height
        assert one["letters"][0] >= LETTERS_MIN


def test_what_is_measured_would_be_noticed(browser: Browser):
    html = '<html><body><p style="width: 900px">wide</p><i style="font-size: 5px">small</i>\n'
    (seen,) = measure(browser, (html + "</body></html>", 420, 800))
    assert (seen["needs"] > 420, seen["beyond"]) == (True, ["P.null"])
    assert seen["letters"] == [5, "I.null"]
    assert seen["answer"] is None
    for text in ("{'a': 1}", "[None]", "LsnRange(first=1, last=2)", "<x.Y object at 0x7f>"):
        assert REPR.search(text)
    assert not REPR.search("LSN 1-302 (4.9 s until the end); [1] of {2}: no, none")


@pytest.mark.parametrize("page", ["report", "certificate", "history"])
def test_a_page_can_be_walked_by_a_screen_reader(page: str, request):
    """Its landmarks, the heads of its columns, and what scrolls and is reached by the keyboard."""
    html = request.getfixturevalue(page)
    assert html.count("<main>") == html.count("</main>") == 1
    assert re.findall(r"<th[^>]*>\s*</th>", html) == []
    assert all("aria-label" in nav for nav in re.findall(r"<nav[^>]*>", html))
    scrolling = re.findall(r'<div class="scroll"[^>]+>', html)
    assert scrolling
    assert all('tabindex="0"' in one and "aria-label" in one for one in scrolling)
