# SPDX-License-Identifier: Apache-2.0
"""The pages in a real browser: they render, say nothing on the console, load nothing, and the
fields of the map have their colours and patterns where they stand."""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Callable
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from certificate_maker import cell_of, cells_of_yaml, certificate_of_cells, cost_of
from chromium import HEIGHT, WIDTH, Browser, browser_in

from powercut.model.verdict import Verdict
from powercut.scenario.choices import DiskModel
from powercut_extras.certify.page import certificate_html
from powercut_extras.pages.history_page import write_history
from powercut_extras.pages.history_reader import read_history

SAFE, LOSSY = (0xD3, 0xEC, 0xDD), (0xF8, 0xD3, 0xCF)
HATCH, UNKNOWN = (0xE5, 0x9A, 0x93), (0xFD, 0xEE, 0xC4)
"""The colours of certificate.css.j2 in light mode."""


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    return browser_in(tmp_path)


def picture(path: Path) -> np.ndarray:
    """A PNG of 8 bits a sample as rows of pixels (RFC 2083, filters of its chapter 6)."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, size = 8, b"", (0, 0, 0, 0)
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if name == b"IHDR":
            size = struct.unpack(">IIBB", body[:10])
        elif name == b"IDAT":
            packed += body
        at += length + 12
    width, height, depth, kind = size
    assert depth == 8
    step = {2: 3, 6: 4}[kind]
    raw = np.frombuffer(zlib.decompress(packed), dtype=np.uint8).reshape(height, -1)
    rows = np.zeros((height + 1, width, step), dtype=np.uint8)
    for y in range(height):
        rows[y + 1] = unfilter(int(raw[y, 0]), raw[y, 1:].reshape(width, step), rows[y])
    return rows[1:, :, :3]


def unfilter(kind: int, line: np.ndarray, above: np.ndarray) -> np.ndarray:
    if kind == 0:
        return line
    if kind == 1:
        return np.cumsum(line, axis=0, dtype=np.uint8)
    if kind == 2:
        return line + above
    done = np.zeros_like(line)
    left = corner = [0] * line.shape[1]
    for x, (pixel, over) in enumerate(zip(line.tolist(), above.tolist(), strict=True)):
        if kind == 3:
            left = [(p + (a + b) // 2) & 255 for p, a, b in zip(pixel, left, over, strict=True)]
        else:
            samples = zip(pixel, left, over, corner, strict=True)
            left = [(p + paeth(a, b, c)) & 255 for p, a, b, c in samples]
            corner = over
        done[x] = left
    return done


def paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    a, b, c = abs(guess - left), abs(guess - above), abs(guess - corner)
    if a <= b and a <= c:
        return left
    return above if b <= c else corner


SCRIPT = """<script>addEventListener("load", () => {
const boxes = [...document.querySelectorAll("td.f")].map(field => {
  const box = field.getBoundingClientRect();
  const link = field.querySelector("a");
  const href = link ? link.getAttribute("href") : "";
  return [field.className, href, box.x, box.y, box.width, box.height];
});
const out = document.createElement("pre");
out.id = "boxes"; out.textContent = JSON.stringify(boxes); document.body.append(out);
});</script>"""
"""Appended to a copy of the page only: the page itself has no script."""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    cells = cells_of_yaml(
        "powercut: 1\nname: some\ndescription: d\nmatrix:\n"
        "  machine.bus: [virtio-blk, ide]\n  machine.cache: [none, directsync, unsafe]\n"
        "  exclude: [{machine.bus: ide, machine.cache: directsync}]\n"
    )
    costs = (cost_of(1.0, 700, disk=DiskModel.HDD_7200, limit=120),)
    cells = [cell.model_copy(update={"costs": costs}) for cell in cells]
    odd = {"verdict": Verdict.LOSSY, "lost": 300, "as_expected": False, "explanation": "disk: lies"}
    cells[2] = cells[2].model_copy(update=odd)
    cells[3] = cells[3].model_copy(update={"verdict": Verdict.INCONCLUSIVE, "explanation": "hung"})
    path = tmp_path / "page" / "certificate.html"
    path.parent.mkdir()
    path.write_text(certificate_html(certificate_of_cells(cells), path.parent))
    return path


def test_the_page_renders_without_a_word_on_the_console(browser: Browser, page: Path):
    dom, console = browser(page, "--dump-dom")
    assert console == ""
    assert set(re.findall(r'id="(c\d+)"', dom)) == {f"c{number}" for number in range(5)}
    assert dom.count('class="f none"') == 2  # the legend, and the combination left out


def test_the_console_and_the_network_would_be_noticed(browser: Browser, page: Path):
    bad = page.with_name("bad.html")
    bad.write_text(page.read_text() + "<script>nonsense(</script>")
    assert "SyntaxError" in browser(bad, "--dump-dom")[1]
    bad.write_text(page.read_text() + '<script src="http://example.invalid/x.js"></script>'
                   "<script>console.error('not there')</script>")  # fmt: skip
    assert "not there" in browser(bad, "--dump-dom")[1]


def test_fields_have_the_colour_and_pattern_of_their_verdict(
    browser: Browser, page: Path, tmp_path: Path
):
    probe = page.with_name("probe.html")
    probe.write_text(page.read_text().replace("</body>", SCRIPT + "</body>"))
    dom, _ = browser(probe, "--dump-dom", "--virtual-time-budget=2000")
    found = re.search(r'<pre id="boxes">(.*?)</pre>', dom, re.DOTALL)
    assert found is not None
    boxes = json.loads(unescape(found[1]))
    assert [(box[0].split()[1], box[1]) for box in boxes] == [
        ("SAFE", "#c0"), ("SAFE", "#c1"), ("LOSSY", "#c2"),
        ("INCONCLUSIVE", "#c3"), ("none", ""), ("SAFE", "#c4"),
    ]  # fmt: skip
    shot = tmp_path / "shot.png"
    browser(page, f"--screenshot={shot}")
    pixels = picture(shot)
    assert pixels.shape == (HEIGHT, WIDTH, 3)
    for name, _, x, y, width, height in boxes:
        assert y + height < HEIGHT
        inside = pixels[round(y) + 4 : round(y + height) - 4, round(x) + 4 : round(x + width) - 4]
        share = {
            colour: float((inside == colour).all(axis=2).mean())
            for colour in (SAFE, LOSSY, HATCH, UNKNOWN)
        }
        own = {"SAFE": SAFE, "LOSSY": LOSSY, "INCONCLUSIVE": UNKNOWN}.get(name.split()[1])
        for colour in (SAFE, LOSSY, UNKNOWN):
            assert (share[colour] > 0.3) == (colour == own), (name, share)
        # The hatching is what a printer without colour shows.
        assert (share[HATCH] > 0.01) == (own == LOSSY), (name, share)
        grey = inside.astype(int).sum(axis=2)
        assert grey.max() - grey.min() > 150  # there is writing in it


OPENER = """<script>addEventListener("load", () => {
location.hash = "#c3";
setTimeout(() => {
  document.body.dataset.open = document.getElementById("c3").closest("details").open;
}, 500); });</script>"""


def test_a_field_opens_the_details_of_its_cell(browser: Browser, page: Path):
    probe = page.with_name("probe.html")
    text = page.read_text()
    assert 'href="#c3"' in text
    probe.write_text(text.replace("</body>", OPENER + "</body>"))
    dom, _ = browser(probe, "--dump-dom", "--virtual-time-budget=5000")
    assert 'data-open="true"' in dom


def test_it_prints(browser: Browser, page: Path, tmp_path: Path):
    target = tmp_path / "page.pdf"
    browser(page, f"--print-to-pdf={target}", "--no-pdf-header-footer")
    data = target.read_bytes()
    assert data.startswith(b"%PDF-")
    assert len(re.findall(rb"/Type\s*/Page\b", data)) >= 2


def test_the_history_renders(browser: Browser, tmp_path: Path):
    for number, verdict in enumerate((Verdict.SAFE, Verdict.SAFE, Verdict.LOSSY)):
        folder = tmp_path / "certify" / "nightly" / f"n{number}"
        folder.mkdir(parents=True)
        cell = cell_of("only", verdict, costs=(cost_of(1.0, 500 + number),))
        certificate = certificate_of_cells([cell], started=f"2026-11-2{number}T01:00:00+00:00")
        (folder / "certificate.json").write_text(certificate.model_dump_json())
    dom, console = browser(write_history(read_history(tmp_path)), "--dump-dom")
    assert console == ""
    assert dom.count('class="strip"') == 2
    assert "some: only" in dom


def test_pictures_are_read_right(tmp_path: Path):
    """Each of the five filters, undone by the definition of the format."""
    rnd = np.random.default_rng(1)
    wanted = rnd.integers(0, 256, (5, 7, 3), dtype=np.uint8)
    lines = b"".join(encoded(kind, wanted, kind) for kind in range(5))
    chunks: list[tuple[bytes, bytes]] = [
        (b"IHDR", struct.pack(">IIBBBBB", 7, 5, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
    ]
    path = tmp_path / "x.png"
    body = b"".join(
        struct.pack(">I", len(data)) + name + data + b"\0\0\0\0" for name, data in chunks
    )
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    assert (picture(path) == wanted).all()


def encoded(kind: int, image: np.ndarray, y: int) -> bytes:
    """Row `y` of `image` under one filter."""
    predict: dict[int, Callable[[int, int, int], int]] = {
        0: lambda *_: 0,
        1: lambda left, *_: left,
        2: lambda _, above, __: above,
        3: lambda left, above, _: (left + above) // 2,
        4: paeth,
    }
    line = bytearray([kind])
    for x in range(image.shape[1]):
        for sample in range(3):
            left = int(image[y, x - 1, sample]) if x else 0
            above = int(image[y - 1, x, sample]) if y else 0
            corner = int(image[y - 1, x - 1, sample]) if x and y else 0
            line.append((int(image[y, x, sample]) - predict[kind](left, above, corner)) & 255)
    return bytes(line)
