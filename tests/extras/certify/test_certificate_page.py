# SPDX-License-Identifier: Apache-2.0
"""The page of a certificate: all of it in one file, every link goes somewhere."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from certificate_maker import (
    LINUX,
    QEMU,
    cell_of,
    cells_of_yaml,
    certificate_of_cells,
    certificate_of_runs,
    cost_of,
)

from powercut.model.verdict import Verdict
from powercut.report.page.pages import figure, microseconds, ratio
from powercut.scenario.choices import DiskModel
from powercut.store.component import Executed
from powercut.store.layout import ResultDir
from powercut_extras.certify.certificate import CertifiedControl, Coverage, SealedRecording
from powercut_extras.certify.heatmap import lay_out
from powercut_extras.certify.histogram import BARS, histogram_bars, histogram_svg
from powercut_extras.certify.measurement import RequestCounts, WireAccount
from powercut_extras.certify.page import certificate_html, how_sure, write_certificate_report
from powercut_extras.certify.page_costs import cost_views, main_model
from powercut_extras.certify.page_losses import kinds_of, layer_of
from powercut_extras.certify.signature import read_signature


class Page(HTMLParser):
    """What a browser would have to find: anchors, links, what is loaded, text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        names = dict(attrs)
        self.tags.add(tag)
        if "id" in names:
            self.ids.append(str(names["id"]))
        for key in ("href", "src", "xlink:href", "data", "action"):
            if key in names:
                value = str(names[key])
                (self.links if value.startswith("#") else self.loads).append(value)


def wire(ends: str = "", *, flushes: int = 0) -> WireAccount:
    counts = RequestCounts(writes=200, fua_writes=0, flushes=flushes, written_bytes=819200)
    return WireAccount(
        commits=200,
        committed_bytes=102400,
        guest=counts.model_copy(update={"kinds": {"WS": 200, "FF": 200}, "flushes": 200}),
        hypervisor=counts.model_copy(update={"flushes": 200}),
        disk=counts,
        flush_ends_at=ends,
        because="200 flushes came in, none went out." if ends else "",
    )


def test_every_cell_has_its_place_and_every_link_its_target(tmp_path: Path):
    cells = [
        *cells_of_yaml(
            "powercut: 1\nname: some\ndescription: d\nmatrix:\n"
            "  machine.bus: [virtio-blk, ide]\n  machine.cache: [none, directsync]\n"
        ),
        cell_of("odd", Verdict.LOSSY, explanation="hypervisor: it lies"),
        cell_of("unknown", Verdict.INCONCLUSIVE, explanation="the guest hung"),
    ]
    page = Page(certificate_html(certificate_of_cells(cells), tmp_path))
    assert len(page.ids) == len(set(page.ids))
    assert {f"c{number}" for number in range(6)} <= set(page.ids)
    assert {link[1:] for link in page.links} <= set(page.ids)
    assert {f"#c{number}" for number in range(6)} <= set(page.links)
    assert page.loads == []
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed", "base"}


def test_nothing_is_loaded_by_the_style_either(tmp_path: Path):
    text = certificate_html(certificate_of_cells([cell_of("a", Verdict.SAFE)]), tmp_path)
    assert not re.search(r"@import|url\((?!#)|https?://|//[a-z]", text)


def test_hostile_names_stay_text(tmp_path: Path):
    evil = '<script>alert("x")</script>'
    cell = cell_of("a", Verdict.LOSSY, explanation=evil, description=evil)
    cell = cell.model_copy(
        update={"cell": evil, "scenario": evil, "reproduce": evil, "wire": wire(evil)}
    )
    certificate = certificate_of_cells(
        [cell],
        title=evil,
        statement=evil,
        host={evil: evil},
        components=(QEMU.model_copy(update={"version": evil}),),
    )
    text = certificate_html(certificate, tmp_path)
    assert "<script" not in text
    assert text.count("&lt;script&gt;") >= 8


def test_a_nightly_fits_and_renders_in_time(tmp_path: Path):
    buses = "[virtio-blk, virtio-scsi, virtio-scsi-fua, nvme, ide, ahci, usb-storage]"
    cells = cells_of_yaml(
        f"powercut: 1\nname: large\ndescription: d\nmatrix:\n  machine.bus: {buses}\n"
        "  cut.policy: [drop, keep, random, prefix]\n"
        "  workload.sync: [fsync, fdatasync, o_dsync, o_sync, rwf_dsync]\n"
        "  filesystem.type: [ext4, raw]\n"
        "  machine.cache: [none, writeback, writethrough, directsync, unsafe]\n"
    )
    histogram = tuple((10.0 * 1.1**n, n + 1) for n in range(60))
    costs = tuple(
        cost_of(1.0, 700, disk=model, limit=120).model_copy(update={"histogram": histogram})
        for model in DiskModel
    )
    controls = tuple(
        CertifiedControl(kind=kind, expected="safe", verdict=Verdict.SAFE, behaved=True)
        for kind in ("honest", "lying-disk", "no-sync")
    )
    recordings = (
        SealedRecording(directory="runs/large/" + "x" * 90, sha256="ab" * 32, kept=False),
    )
    lost = {"verdict": Verdict.LOSSY, "lost": 9, "explanation": "hypervisor: it drops flushes"}
    cells = [
        cell.model_copy(
            update={"wire": wire(flushes=200), "costs": costs, "controls": controls}
            | {"evidence": recordings, "reproduce": "x" * 80 + cell.reproduce}
            | (lost if number % 9 == 0 else {})
        )
        for number, cell in enumerate(cells)
    ]  # fmt: skip
    assert len(cells) == 1400
    text = certificate_html(certificate_of_cells(cells), tmp_path)
    assert len(text.encode()) < 5_000_000
    assert set(Page(text).ids) >= {f"c{number}" for number in range(1400)}


def test_losses_of_one_cause_are_one_kind_whatever_their_numbers(tmp_path: Path):
    cells = [
        cell_of("a", Verdict.LOSSY, expected_lossy=True, explanation="lost 3 of 4", lost=3),
        cell_of("b", Verdict.LOSSY, expected_lossy=True, explanation="lost 30 of 40", lost=30),
        cell_of("c", Verdict.LOSSY, explanation="something else"),
        cell_of("d", Verdict.INCONCLUSIVE, explanation="lost 3 of 4"),
        cell_of("f", Verdict.SAFE),
    ]
    cells.append(cells[0].model_copy(update={"wire": wire("disk")}))
    kinds = kinds_of(certificate_of_cells(cells), tmp_path)
    assert [(kind.verdict, kind.members) for kind in kinds] == [
        (Verdict.LOSSY, (2,)),  # nobody expected it
        (Verdict.LOSSY, (1, 0)),  # the one that lost most tells the story
        (Verdict.LOSSY, (5,)),
        (Verdict.INCONCLUSIVE, (3,)),
    ]
    assert [kind.number for kind in kinds] == [1, 2, 3, 4]
    assert kinds[2].flush_ends_at == "disk"
    assert kinds[0].surprises == 1


def test_the_layer_is_as_measured_else_as_explained():
    lossy = cell_of("a", Verdict.LOSSY, explanation="hypervisor: drops flushes")
    named = lossy.model_copy(update={"cause_layer": "hypervisor"})
    assert layer_of(named) == "hypervisor"
    assert layer_of(named.model_copy(update={"wire": wire("disk")})) == "disk"
    assert layer_of(lossy) == ""
    assert layer_of(named.model_copy(update={"verdict": Verdict.SAFE})) == ""


def test_losses_of_one_cause_are_one_kind_whatever_else_is_said_of_them(tmp_path: Path):
    cells = [
        cell_of(name, Verdict.LOSSY, explanation=f"{cause}; {name}").model_copy(
            update={"cause": cause}
        )
        for name, cause in (("a", "it lies"), ("b", "it lies"), ("c", "it tears"))
    ]
    kinds = kinds_of(certificate_of_cells(cells), tmp_path)
    assert [kind.members for kind in kinds] == [(0, 1), (2,)]


def test_the_safest_cell_trusts_the_fewest_caches():
    cells = cells_of_yaml(
        "powercut: 1\nname: some\ndescription: d\nmatrix:\n"
        "  machine.bus: [virtio-blk, ide]\n"
        "  machine.cache: [none, writeback, directsync, unsafe]\n"
    )
    speeds = [200, 250, 100, 900, 60, 50, 80, 300]
    cells = [
        cell.model_copy(update={"costs": (cost_of(1.0, speed),)})
        for cell, speed in zip(cells, speeds, strict=True)
    ]
    cells[3] = cells[3].model_copy(update={"verdict": Verdict.LOSSY})
    cells[6] = cells[6].model_copy(update={"verdict": Verdict.INCONCLUSIVE})
    certificate = certificate_of_cells(cells)
    layout = lay_out(list(enumerate(cells)), certificate.axes)
    views = cost_views(certificate, layout.families)
    told = {n: (one.reference, one.ratio) for n, (one,) in views.items()}
    assert told[0] == (2, 2.0)
    assert told[3] == (2, 9.0)
    assert told[2] == (2, 1.0)
    # On IDE directsync is not SAFE: none comes next.  unsafe is SAFE there by this fixture.
    assert [told[n][0] for n in (4, 5, 6, 7)] == [4] * 4


def test_a_cell_without_a_row_is_held_against_its_like_in_other_caches():
    text = (
        "powercut: 1\nname: some\ndescription: d\nmatrix:\n  machine.write_cache: [auto, 'off']\n"
    )
    cells = cells_of_yaml(text + "  machine.bus: [virtio-blk, ide]\n")
    cells = [
        cell.model_copy(update={"costs": (cost_of(1.0, speed),)})
        for cell, speed in zip(cells, [300, 60, 100, 20], strict=True)
    ]
    views = cost_views(certificate_of_cells(cells), {})
    assert [(one.reference, one.ratio) for (one,) in views.values()] == [
        (2, 3.0), (3, 3.0), (2, 1.0), (3, 1.0),
    ]  # fmt: skip


def test_a_row_without_a_safe_cell_has_no_ratio():
    cell = cell_of("a", Verdict.LOSSY, costs=(cost_of(1.0, 5),))
    ((view,),) = cost_views(certificate_of_cells([cell]), {}).values()
    assert view.ratio is None
    assert view.reference is None


def test_more_than_the_medium_can_do_is_a_symptom(tmp_path: Path):
    fast = cost_of(1.0, 700, disk=DiskModel.HDD_7200, limit=120)
    cell = cell_of("quick", Verdict.SAFE, costs=(fast,))
    certificate = certificate_of_cells([cell])
    assert main_model(certificate) is DiskModel.HDD_7200
    text = certificate_html(certificate, tmp_path)
    assert "Too fast to be true:</b> 1 cell commits" in text
    assert "the medium can do 120/s" in text


def test_the_wire_shows_where_the_promise_ends(tmp_path: Path):
    cell = cell_of("a", Verdict.LOSSY, wire=wire("hypervisor"))
    text = certificate_html(certificate_of_cells([cell]), tmp_path)
    assert re.search(r'<tr class="end"><th>hypervisor<', text)
    assert "200 flushes came in, none went out." in text
    assert "WS&nbsp;200" in text
    text = certificate_html(
        certificate_of_cells([cell_of("a", Verdict.LOSSY, wire=wire("workload"))]), tmp_path
    )
    assert re.search(r'<tr class="end"><th>workload<', text)
    assert text.count('<tr class="end">') == 2  # in the kind and in the cell


def test_histograms_stand_on_one_scale():
    bars = histogram_bars([(1.0, 2), (10.0, 3), (1_000.0, 5), (10**9, 7)])
    assert sum(bars) == 17
    assert bars[0] == 5
    assert bars[BARS * 2 // 5] == 5
    assert bars[-1] == 7
    assert histogram_svg([], "x") == ""
    assert "&lt;b&gt;" in histogram_svg([(10.0, 1)], "<b>")


def test_figures_have_the_digits_that_count():
    assert [figure(value) for value in (0, 0.001, 0.5, 41.04, 99.96, 1234.5)] == [
        "0", "under 0.01", "0.5", "41", "100", "1,234",
    ]  # fmt: skip
    assert [ratio(value) for value in (0.394, 0.96, 1.94, 12.4)] == ["0.39", "1.0", "1.9", "12"]
    assert [microseconds(value) for value in (524, 9437, 64893, 2.5e6)] == [
        "524 µs", "9.44 ms", "64.9 ms", "2.5 s",
    ]  # fmt: skip


LOOKED_AT = Coverage(
    legal_log2=9, checked=40, decided=2, lossy=0, by_policy={"durable-only": 32, "torn": 10}
)


def test_how_sure_counts_by_bound_and_tells_of_crash_states():
    cells = [
        cell_of("a", Verdict.SAFE),
        cell_of("b", Verdict.SAFE, cuts=5, loss_probability_upper_95=0.4507),
        cell_of("c", Verdict.SAFE, coverage=LOOKED_AT),
        cell_of("d", Verdict.LOSSY),
    ]
    assert how_sure(cells) == [
        "2 SAFE cells: the recording is the evidence. By 1 cut each alone, fewer than 95 % of such "
        "cuts lose a record (95 % confidence).",
        "1 SAFE cell: the recording is the evidence. By 5 cuts each alone, fewer than 46 % of such "
        "cuts lose a record (95 % confidence).",
        "Besides the cuts, 42 crash states that the disk was allowed to leave were recovered in "
        "1 SAFE cell (durable-only 32, torn 10): they show that file systems and image formats "
        "lead to the records.",
        "In 3 SAFE cells the analysis of every request shows that no record was acknowledged "
        "before its bytes were durable, at any instant, not only at those of the cuts.",
    ]


def test_the_state_of_the_signature_is_told_not_vouched_for(tmp_path: Path):
    certificate = certificate_of_cells([cell_of("a", Verdict.SAFE)])
    (tmp_path / "certificate.json").write_text(certificate.model_dump_json())
    assert read_signature(tmp_path) is None
    text = write_certificate_report(tmp_path).read_text()
    assert "none lies beside certificate.json" in text
    (tmp_path / "certificate.json.sig").write_text("nonsense")
    assert "it is no OpenSSH signature" in write_certificate_report(tmp_path).read_text()


def test_the_key_of_a_real_signature_is_named(tmp_path: Path):
    if shutil.which("ssh-keygen") is None:
        pytest.skip("ssh-keygen is not installed: apt-get install openssh-client")
    key, signed = tmp_path / "key", tmp_path / "certificate.json"
    signed.write_text("{}")
    run = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
    subprocess.run(run, check=True, timeout=120)
    sign = ["ssh-keygen", "-Y", "sign", "-q", "-f", str(key), "-n", "powercut-certificate"]
    subprocess.run([*sign, str(signed)], check=True, timeout=120, stderr=subprocess.DEVNULL)
    show = ["ssh-keygen", "-l", "-f", f"{key}.pub"]
    said = subprocess.check_output(show, timeout=120, text=True)
    signature = read_signature(tmp_path)
    assert signature is not None
    assert (signature.namespace, signature.key_type) == ("powercut-certificate", "ssh-ed25519")
    assert signature.fingerprint == said.split()[1]
    text = (tmp_path / "certificate.json.sig").read_text()
    (tmp_path / "certificate.json.sig").write_text(text[:60] + text[-30:])
    damaged = read_signature(tmp_path)
    assert damaged is not None
    assert damaged.trouble


def test_recordings_that_are_gone_or_damaged_are_said_not_fatal(made, tmp_path: Path):
    directory = tmp_path / "cert"
    (directory / "runs").mkdir(parents=True)
    run = made.directory.path
    (directory / "runs" / "first-light").mkdir()
    kept = directory / "runs" / "first-light" / run.name
    shutil.copytree(run, kept)
    (directory / "runs" / "first-light" / "latest").symlink_to(run.name)
    for trial in ResultDir(kept).trials():
        result = made.run.cells[0].trials[0]
        trial.write_verdict(result)
    certificate = certificate_of_runs(directory)
    text = certificate_html(certificate, directory)
    # These recordings have no disk log and no history: nothing can be drawn, and that is said.
    assert text.count("Not readable:") >= 2
    shutil.rmtree(kept / "cells")
    assert "verdict.json" in certificate_html(certificate, directory)
    gone = []
    for cell in certificate.cells:
        thrown = tuple(one.model_copy(update={"kept": False}) for one in cell.evidence)
        gone.append(cell.model_copy(update={"evidence": thrown}))
    assert "its recordings were not kept" in certificate_html(
        certificate_of_cells(gone, components=(QEMU, LINUX)), directory
    )


def test_what_was_executed_is_told_in_a_line_each(tmp_path):
    one = Executed(
        what="check",
        command="/usr/bin/prog <b> check",
        sha256="c" * 64,
        source="this host's files, package prog 1",
        confined="bubblewrap on this host",
    )
    html = certificate_html(certificate_of_cells((), executed=(one,)), tmp_path)
    assert "What was executed, and of whom" in html
    assert "<details open><summary>1 thing executed on the host</summary>" in html
    assert "check: <code>/usr/bin/prog &lt;b&gt; check</code>, of this host&#39;s files" in html
    assert "bubblewrap on this host" in html
    many = certificate_html(certificate_of_cells((), executed=(one,) * 13), tmp_path)
    assert "<details><summary>13 things executed" in many
