# SPDX-License-Identifier: Apache-2.0
"""Who hands a certificate over stands above it, and what of which version was tested."""

from __future__ import annotations

import re
from pathlib import Path

from certificate_maker import LINUX, QEMU, cell_of, certificate_of_cells
from small_images import png

from powercut.model.verdict import Verdict
from powercut.store.host_load import HostLoad
from powercut_extras.certify.certificate import Certificate
from powercut_extras.certify.issuer import Issuer, logo_of
from powercut_extras.certify.page import certificate_html
from powercut_extras.certify.page_head import head_of

BUSY = HostLoad(seconds=60, processors=2, average_before=4.1, stolen=0.031, others=0.44)


def certificate(**changes) -> Certificate:
    return certificate_of_cells([cell_of("a", Verdict.SAFE)], **changes)


def test_the_issuer_stands_above_the_answer(tmp_path: Path):
    logo = logo_of(png())
    issuer = Issuer(name="Example <b>Ltd", contact="ask@example.org", logo=logo)
    page = certificate_html(certificate(heading="Cluster B & C", issuer=issuer), tmp_path)
    assert "<h1>Cluster B &amp; C</h1>" in page
    assert "issued by <b>Example &lt;b&gt;Ltd</b>" in page
    assert page.index("ask@example.org") < page.index('class="answer')
    # The logo is all that is loaded, and it lies in the page itself.
    assert re.findall(r' src="([^"]*)"', page) == [logo]


def test_without_an_issuer_nothing_is_said_of_one(tmp_path: Path):
    page = certificate_html(certificate(), tmp_path)
    assert "<h1>sample</h1>" in page
    assert "issued by" not in page
    assert "<img" not in page


def test_the_versions_that_were_tested_stand_below_the_heading():
    head = head_of(certificate(heading="Cluster B"))
    assert head.subtitle == (
        "sample, qemu-system-x86_64 7.2.22, Linux 6.1.0-42-cloud-amd64, powercut 0.1.0, 2026-11-21"
    )
    more = [QEMU.model_copy(update={"version": str(number)}) for number in range(6)]
    assert head_of(certificate(components=(*more, LINUX))).subtitle.startswith(
        "qemu-system-x86_64 0, qemu-system-x86_64 1, qemu-system-x86_64 2, qemu-system-x86_64 3, "
        "2 more versions of the hypervisor, Linux"
    )


def test_a_busy_host_is_said_and_a_quiet_one_only_listed(tmp_path: Path):
    page = certificate_html(certificate(load=BUSY), tmp_path)
    assert "The host was busy: other programs took 44 % of the time of 2 processors" in page
    quiet = BUSY.model_copy(update={"others": 0.1, "stolen": 0.0})
    page = certificate_html(certificate(load=quiet), tmp_path)
    assert "The host was busy" not in page
    assert "other programs took 10 % of the time of 2 processors" in page
