# SPDX-License-Identifier: Apache-2.0
"""The time line of a recording in a real browser, from a server and from a file of its own.

Whatever the page says of an instant is what the crash model says of it.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from axe.check import violations
from certificate_maker import cell_of, certificate_of_cells
from chromium_page import Page, page_in
from click.testing import CliRunner
from runs_by_hand import RECORDS, TEXT, make_run

from powercut.cli.commands import cli
from powercut.crash.states import CrashState
from powercut.model.errors import HostError
from powercut.model.verdict import Verdict
from powercut.paths import as_word
from powercut.recording.open_recording import open_recording
from powercut.report.difference import difference_lines
from powercut.store.exploration import read_exploration
from powercut.store.file_map import MappedFile
from powercut.store.layout import ResultDir
from powercut.store.progress import Busy, RunProgress, write_progress
from powercut.store.trial_dir import TrialDir
from powercut_extras.pages import browse
from powercut_extras.pages.browse import ADDRESS, server
from powercut_extras.pages.timeline import data as made
from powercut_extras.pages.timeline import inside
from powercut_extras.pages.timeline.data import timeline_json
from powercut_extras.pages.timeline.inside import Inside
from powercut_extras.pages.timeline.source import Source, source_at

TOKEN = "s3cret-token"
WIDTHS = (390, 800, 1400)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ResultDir:
    run = make_run(tmp_path_factory.mktemp("results"))
    for cell in ("honest", "lying"):
        for words in (["explore", "--budget", "40"], ["audit", "flushes"]):
            done = CliRunner().invoke(cli, [*words, str(trial(run, cell))])
            assert done.exception is None, done.output
    return run


def under_way() -> RunProgress:
    """How far a run is that has just begun."""
    busy = Busy(cell="xfs", trial=3, phase="recovering crash states", states=12, states_all=64)
    return RunProgress(
        updated=time.time(), seconds=60.0, cells=4, cells_done=1, cuts=9, cuts_done=3,
        cuts_before=0, verdicts={Verdict.SAFE: 2, Verdict.LOSSY: 1}, states=140, states_per_s=31.0,
        states_all=512, busy=(busy,),
    )  # fmt: skip


def trial(run: ResultDir, cell: str) -> Path:
    return run.path / "cells" / cell / "0001"


@pytest.fixture(scope="module")
def address(run: ResultDir) -> Iterator[str]:
    """Of a server with a run and a certificate; the token is in it."""
    root = run.path.parent.parent
    folder = root / "certify/some/20260101T000000Z-1"
    folder.mkdir(parents=True)
    certificate = certificate_of_cells([cell_of("a", Verdict.LOSSY), cell_of("b", Verdict.SAFE)])
    (folder / "certificate.json").write_text(certificate.model_dump_json())
    running = root / "by-hand/20260101T000000Z-9"
    running.mkdir()
    (running / "scenario.yaml").write_text(TEXT)
    write_progress(running, under_way())
    with server(root, 0, TOKEN) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://{ADDRESS}:{listening.server_address[1]}"
        finally:
            listening.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with page_in(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def page(browser: Page, address: str) -> Iterator[Page]:
    """A page that has the cookie of the server, as wide as a screen."""
    browser.size(1280)
    browser.media()
    browser.console.clear()
    browser.open(f"{address}/?token={TOKEN}")
    yield browser
    assert browser.console == []


def recording(run: ResultDir, cell: str) -> str:
    return f"/by-hand/{run.path.name}/cells/{cell}/0001/report.html"


def text(page: Page, selector: str) -> str:
    found: str = page(f"document.querySelector({json.dumps(selector)}).innerText")
    return found


def test_a_person_walks_from_the_index_to_a_recording(page: Page, run: ResultDir) -> None:
    """By its links alone: the cookie of the server goes with each."""
    page.click('a[href^="by-hand"]')
    page.until("document.querySelector('td a[href*=\"cells/lying/\"]')")
    page.click('td a[href*="cells/lying/"]')
    page.until("document.getElementById('plot')?.childElementCount")
    assert "by-hand: lying, trial " in text(page, "h1")
    assert text(page, ".answer b") == "LOSSY"


def test_a_run_that_is_under_way_says_how_far_it_is(page: Page) -> None:
    """With its totals, and what is left; what is new comes without loading the page again."""
    row = text(page, "td[data-running]")
    assert "3 of 9 power cuts judged: 2 SAFE, 1 LOSSY; 1 of 4 cells done" in row
    assert "140 of 512 crash states checked, 31 a second in each trial." in row
    assert "About 2 min left at the pace until now." in row
    assert "Now: xfs #3 recovering crash states (12 of 64)." in row
    assert page("document.querySelector('progress').position") == pytest.approx(1 / 3)


def counts(source: Source, instant: int) -> tuple[int, int, int]:
    """By the model: acks, writes that are issued, and those of them that are not durable."""
    space = source.space
    acked = int((source.acks.at_ns < instant).sum())
    return acked, int(space.sets.issued(instant).sum()), len(space.volatile(instant))


@pytest.mark.parametrize("cell", ["honest", "lying"])
def test_what_it_says_of_each_event_is_what_the_model_says(
    page: Page, address: str, run: ResultDir, cell: str
) -> None:
    source = source_at(trial(run, cell))
    page.open(address + recording(run, cell))
    page("document.getElementById('state').focus()")
    seen = page("""(() => {
        const slider = document.getElementById("instant"), found = [];
        slider.value = 0; slider.dispatchEvent(new Event("input"));
        for (let before = -1; Number(slider.value) > before;) {
          found.push([Number(slider.value), document.getElementById("readout").textContent]);
          before = Number(slider.value);
          document.getElementById("event-after").click();
        }
        return found; })()""")
    assert len(seen) > 2 * RECORDS
    for instant, said in seen:
        acked, issued, volatile = counts(source, source.start_ns + instant)
        noun = "record" if acked == 1 else "records"
        assert f" {acked} {noun} acknowledged, " in said
        writes = "write" if issued == 1 else "writes"
        assert f" {issued} {writes} issued, {volatile} of them not durable" in said
    assert any("in flight" in said for _, said in seen)


def test_each_state_and_instant_has_an_address(page: Page, address: str, run: ResultDir) -> None:
    page.open(address + recording(run, "lying"))
    assert page("location.hash") == ""
    first = page("document.getElementById('state').value")
    page.click("#event-before")
    instant = page("location.hash")
    assert re.fullmatch("#at=durable%40[0-9]+", instant)
    said = text(page, "#readout")
    page("location.hash = '#at=' + window.timeline.data.states[1].name")
    page.until("document.getElementById('state').value === '1'")
    page.open("about:blank")
    page.open(address + recording(run, "lying") + instant)
    assert text(page, "#readout") == said
    page.open("about:blank")
    page.open(address + recording(run, "lying") + "#at=no-such-state")
    assert page("document.getElementById('state').value") == first


def test_the_keyboard_moves_the_cut_from_event_to_event(
    page: Page, address: str, run: ResultDir
) -> None:
    page.open(address + recording(run, "honest"))
    page("document.getElementById('instant').focus()")
    page.key("Home")
    assert page("document.getElementById('instant').value") == "0"
    before = text(page, "#readout")
    page.key("ArrowRight")
    assert text(page, "#readout") != before
    assert page("document.getElementById('instant').getAttribute('aria-valuetext')") == text(
        page, "#readout"
    )
    page.key("ArrowLeft")
    assert text(page, "#readout") == before
    page.key("End")
    assert "(the cut)" in text(page, "#readout")


def test_dragging_moves_the_cut(page: Page, address: str, run: ResultDir) -> None:
    page.open(address + recording(run, "honest"))
    box = page(
        "(() => { const one = document.getElementById('plot');"
        "one.scrollIntoView({block: 'center'}); const b = one.getBoundingClientRect();"
        "return [b.x, b.y, b.width, b.height]; })()"
    )
    x, y, width, height = box
    page.drag((x + width * 0.9, y + height / 2), (x + width * 0.5, y + height / 2))
    span = page("Number(document.getElementById('instant').max)")
    middle = page("Number(document.getElementById('instant').value)") / span
    assert 0.3 < middle < 0.6
    assert page("document.getElementById('state').value") == "durable"


def test_a_state_shows_what_is_missing_and_what_was_found(
    page: Page, address: str, run: ResultDir
) -> None:
    """The first that loses something is shown at once; all that are kept can be picked."""
    page.open(address + recording(run, "lying"))
    found = timeline_json(source_at(trial(run, "lying")), difference_lines)
    losing = next(one for one in found["states"] if one["verdict"] == "LOSSY")
    shown = text(page, "#details")
    assert f"Missing writes: {len(losing['drops'])} of {losing['volatile']}" in shown
    assert losing["message"] in shown
    assert f"shell {as_word(trial(run, 'lying'))} {losing['name']}" in shown
    assert f"minimize {as_word(trial(run, 'lying'))} {losing['name']}" in shown
    names = page("[...document.querySelectorAll('#state option')].map(one => one.textContent)")
    assert len(names) == 2 + len(found["states"])
    page("(() => { const one = document.getElementById('state'); one.value = 'everything';"
         "one.dispatchEvent(new Event('change')); })()")  # fmt: skip
    assert "all that was issued has survived" in text(page, "#details")
    assert "everything@" in text(page, "#details code")


def test_pictures_lead_to_states_and_instants(page: Page, address: str, run: ResultDir) -> None:
    """Every state that was checked is drawn; a ring shows its state, a flush moves the cut."""
    page.open(address + recording(run, "lying"))
    explored = read_exploration(TrialDir(trial(run, "lying"), run.path))
    assert explored is not None
    page.until("document.querySelector('svg[data-map] rect')")  # the script has drawn it
    titles = page("[...document.querySelectorAll('svg[data-map] rect')].map(one =>"
                  "one.parentElement.querySelector('title').textContent)")  # fmt: skip
    assert sum(int(one.split(" ")[0].replace(",", "")) for one in titles) == (
        explored.coverage.distinct
    )
    lost = [re.search(r"([\d,]+) lost something", one) for one in titles]
    assert sum(int(one[1]) for one in lost if one) == explored.coverage.lossy > 0
    kept = page("[...document.querySelectorAll('button[data-state]')].map(one =>"
                "one.dataset.state)")  # fmt: skip
    page("[...document.querySelectorAll('button[data-state]')].pop().click()")
    assert f"shell {as_word(trial(run, 'lying'))} {kept[-1]}" in text(page, "#details")
    assert page("document.activeElement.id") == "state"
    page.open(address + recording(run, "honest"))
    source = source_at(trial(run, "honest"))
    page.until("document.querySelector('svg[data-audit] rect')")
    assert page("document.querySelectorAll('svg[data-audit] rect.needed').length") == RECORDS
    assert page("document.querySelectorAll('svg[data-audit] .carries').length") == RECORDS
    page("document.querySelectorAll('svg[data-audit] rect.needed')[1]"
         ".dispatchEvent(new MouseEvent('click', {bubbles: true}))")  # fmt: skip
    done = int(source.space.completed_ns[3]) - source.start_ns
    assert page("Number(document.getElementById('instant').value)") == done
    assert "explore more states" in text(page, 'section[aria-label="States explored"]')
    assert "audit flushes" in text(page, 'section[aria-label="What each flush was worth"]')


def test_a_server_lists_the_files_of_a_state(
    page: Page, address: str, run: ResultDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked once for each; what cannot be mounted is said."""
    mounted = {"log": 4096, "<b>new</b>": 8192, "gone": 0}

    def files_of(recording: object, states: list[CrashState]) -> list[tuple[MappedFile, ...]]:
        _, state = states
        if not state.survivors:
            raise HostError("the file system does not mount")
        every = [
            MappedFile(path=one, extents=((0 if one == "log" else 1 << 40, 0, mounted[one]),))
            for one in mounted
        ]
        return [tuple(every), tuple(every[:2])]

    source = source_at(trial(run, "lying"))
    opened = Inside(open_recording(trial(run, "lying")))
    monkeypatch.setattr(inside, "files_of", files_of)
    monkeypatch.setattr(browse, "source_at", lambda _: replace(source, inside=opened))
    (trial(run, "lying") / "changed").write_text("so that it is read anew")
    page.open(address + recording(run, "lying"))
    some = next(one for one in source.states if len(one.state.survivors) and one.name != "cut")
    page(f"window.timeline.pick({json.dumps(some.name)})")
    page.click("#inside")
    page.until("document.querySelector('#details').innerText.includes('after recovery')")
    rows = text(page, "#details [aria-label='files of this state']")
    assert "gone\tnot there\t0 bytes\tis gone" in rows
    assert "<b>new</b>\t8,192 bytes\t8,192 bytes\tnone" in rows
    assert "log\t4,096 bytes\t4,096 bytes\tits contents" in rows
    differ = text(page, "#details [aria-label='contents that differ']").splitlines()
    assert [line.split("\t")[0] for line in differ] == ["file", "log"]
    none = next(one for one in source.states if not one.state.survivors)
    page(f"window.timeline.pick({json.dumps(none.name)})")
    page.click("#inside")
    page.until("document.querySelector('#details').innerText.includes('does not mount')")
    page(f"window.timeline.pick({json.dumps(some.name)})")
    assert "is gone" in text(page, "#details"), "it is not asked again"
    place = recording(run, "lying").replace("report.html", "state.json")
    assert "no state" in page(f"fetch({json.dumps(place + '?name=x')}).then(one => one.text())")


def test_a_command_is_copied(page: Page, address: str, run: ResultDir) -> None:
    page.open(address + recording(run, "lying"))
    page.click(".command button")
    assert page("String(getSelection())") == text(page, ".command code")


def test_zooming_shows_requests_one_by_one(
    page: Page, address: str, run: ResultDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page holds a bounded part of a long recording; its server has the rest."""
    monkeypatch.setattr(made, "REQUESTS_MAX", 8)
    page.open(address + recording(run, "honest"))
    assert "zoom in" in text(page, "#thinned")
    source = source_at(trial(run, "honest"))
    middle = int(source.space.sets.submitted_ns[RECORDS]) + 1 - source.start_ns
    page("(() => { const one = document.getElementById('instant');"
         f"one.value = {middle}; one.dispatchEvent(new Event('input')); }})()")  # fmt: skip
    for _ in range(6):
        page.click("#zoom-in")
    page.until("document.querySelector('#plot rect.write, #plot rect.flush')")
    assert text(page, "#thinned") == ""


@pytest.mark.parametrize("what", ["index", "run", "honest", "lying", "history", "certificate"])
def test_axe_finds_no_violation(page: Page, address: str, run: ResultDir, what: str) -> None:
    """Rules of WCAG and best practices: names, contrast, landmarks, what the keyboard reaches."""
    addresses = {
        "index": "/",
        "run": f"/by-hand/{run.path.name}/report.html",
        "history": "/history.html",
        "certificate": "/certify/some/20260101T000000Z-1/certificate.html",
    }
    page.run_scripts(any_page=True)  # of axe, in a page that has none
    page.open(address + (addresses.get(what) or recording(run, what)))
    page.run_scripts(any_page=False)
    assert violations(page) == []
    page.media(dark=True)
    assert violations(page) == []
    page.size(420)
    assert violations(page) == []
    page.console.clear()  # scripts were forced upon pages that forbid them


def test_axe_would_find_one(page: Page, address: str) -> None:
    page("document.querySelector('main').insertAdjacentHTML('beforeend', '<img src=\"data:,\">')")
    assert [one["rule"] for one in violations(page)] == ["image-alt"]
    page("document.querySelector('main img').remove()")


@pytest.mark.parametrize("cell", ["honest", "lying"])
def test_it_is_legible_at_every_width(page: Page, address: str, run: ResultDir, cell: str) -> None:
    for width in WIDTHS:
        page.size(width)
        page.open(address + recording(run, cell))
        assert page("document.documentElement.scrollWidth") <= width
        sizes = page("""[...document.querySelectorAll("#plot text")].map(one =>
            parseFloat(getComputedStyle(one).fontSize) * one.getScreenCTM().a)""")
        assert min(sizes) >= 9
        box = page("(b => [b.left, b.right])(document.getElementById('plot')"
                   ".getBoundingClientRect())")  # fmt: skip
        beyond = page("""[...document.querySelectorAll("#plot text")].map(one =>
            [one.getBoundingClientRect().left, one.getBoundingClientRect().right])""")
        assert all(left >= box[0] - 1 and right <= box[1] + 1 for left, right in beyond)


def test_a_saved_page_needs_no_server(browser: Page, run: ResultDir, tmp_path: Path) -> None:
    file = tmp_path / "sent.html"
    done = CliRunner().invoke(cli, ["show", str(trial(run, "lying")), "--html", str(file)])
    assert done.exit_code == 0, done.output
    browser.console.clear()
    browser.size(1280)
    browser.open(file.as_uri())
    assert browser("document.getElementById('plot').childElementCount") > 3
    browser.click("#event-before")
    browser.click("#zoom-in")
    assert browser.console == []
    assert browser("performance.getEntriesByType('resource').length") == 0
    assert browser.paper(tmp_path / "page.pdf").read_bytes().startswith(b"%PDF-")


HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>\u2028"


def test_names_of_a_stranger_are_text(
    browser: Page, run: ResultDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may be called anything; a page neither ends its data early nor runs it."""
    names = source_at(trial(run, "lying")).names
    monkeypatch.setattr(type(names), "lane", lambda *_: HOSTILE)
    monkeypatch.setattr(type(names), "told", lambda *_: HOSTILE)
    file = tmp_path / "hostile.html"
    done = CliRunner().invoke(cli, ["show", str(trial(run, "lying")), "--html", str(file)])
    assert done.exit_code == 0, done.output
    assert HOSTILE not in file.read_text()
    browser.open(file.as_uri())
    assert "owned" not in browser("document.title")
    assert browser("document.querySelectorAll('main img').length") == 0
    assert "onerror=alert(1)" in text(browser, "#details")
    browser("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"window.ran=1\">')")
    assert browser("new Promise(done => setTimeout(() => done(window.ran), 50))") is None


@pytest.mark.parametrize("query", ["", "begin=0", "begin=9&end=1", "begin=-1&end=5",
                                   "begin=0&end=9999999999999999999", "begin=x&end=y"])  # fmt: skip
def test_a_window_that_is_none_is_refused(page: Page, address: str, run: ResultDir, query: str):
    place = recording(run, "honest").replace("report.html", "window.json")
    status = page(f"fetch({json.dumps(f'{place}?{query}')}).then(one => one.status)")
    assert status == 404
    page.console.clear()
