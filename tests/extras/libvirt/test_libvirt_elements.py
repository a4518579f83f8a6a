# SPDX-License-Identifier: Apache-2.0
"""Every word of a domain's definition is carried over, known to change nothing, or said."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from definitions_page import PAGE, page
from hypothesis import given
from hypothesis import strategies as st
from relax_ng import Schema

from powercut.model.errors import UsageError
from powercut.scenario.preset import all_presets
from powercut_extras.certify.likeness import scenario_like
from powercut_extras.libvirt.definition import read_kept, read_likeness
from powercut_extras.libvirt.elements import (
    CONTROLLER,
    DISK,
    NAMESPACE,
    OTHER_HYPERVISORS,
    said_below,
)
from powercut_extras.libvirt.likeness import likeness
from powercut_extras.libvirt.meaning import UNKNOWN, Fate, left_out, meaning_of

SCHEMA = Path("/usr/share/libvirt/schemas/domain.rng")
NEWER = (
    "disk/source/dataStore",
    "disk/source/knownHosts@path",
    "disk/target@dpofua",
    "disk/throttlefilters/throttlefilter@group",
    "disk/driver/iothreads/iothread@id",
    "disk/driver/statistics/statistic@interval",
    "disk/driver@discard_no_unref",
    "disk/blockio@discard_granularity",
    "controller/driver/iothreads/iothread@id",
)
"""What libvirt has learnt since 9.0."""


def domain(disk: str, *, more: str = "", kind: str = "kvm") -> str:
    return (
        f"<domain type='{kind}' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>"
        "<name>box</name><vcpu>2</vcpu><os><type arch='x86_64' machine='q35'>hvm</type></os>"
        f"<devices>{disk}</devices>{more}</domain>"
    )


def disk(*, inside: str = "", driver: str = "", of: str = "", bus: str = "virtio") -> str:
    return (
        f"<disk type='file' device='disk' {of}><driver name='qemu' type='raw' {driver}/>"
        f"<source file='/srv/secret.img'/><target dev='vda' bus='{bus}'/>{inside}</disk>"
    )


def said(text: str) -> list[str]:
    return [one.what for one in read_likeness(text, None).left_out]


@pytest.mark.skipif(not SCHEMA.is_file(), reason=f"{SCHEMA} is not there: libvirt is not installed")
@pytest.mark.parametrize(("name", "table"), [("disk", DISK), ("controller", CONTROLLER)])
def test_each_word_of_libvirts_schema_has_a_meaning(name, table):
    words = Schema(SCHEMA).below(name)
    assert len(words) > 50
    assert [word for word in words if meaning_of(table, word) is UNKNOWN] == []


@pytest.mark.skipif(not SCHEMA.is_file(), reason=f"{SCHEMA} is not there: libvirt is not installed")
@pytest.mark.parametrize(
    "name", ["qemucmdline", "qemuoverride", "qemucapabilities", "qemudeprecation"]
)
def test_so_has_each_of_qemus_namespace(name):
    words = Schema(SCHEMA).below(name)
    assert words
    assert [word for word in words if meaning_of(NAMESPACE, word) is UNKNOWN] == []


@pytest.mark.parametrize("word", NEWER)
def test_so_has_what_is_newer(word):
    assert meaning_of({**DISK, **CONTROLLER}, word) is not UNKNOWN


def test_each_row_that_is_not_carried_says_why():
    rows = {**DISK, **CONTROLLER, **NAMESPACE}
    assert [
        path for path, row in rows.items() if row.fate is not Fate.CARRIED and not row.why
    ] == []


WORDS = st.from_regex(r"[a-z_]{1,12}", fullmatch=True)


@given(st.lists(WORDS, min_size=1, max_size=3), WORDS)
def test_a_word_that_no_table_has_is_left_out_and_said(names, attribute):
    path = "/".join(["disk", *names]) + f"@{attribute}"
    known = meaning_of(DISK, path)
    told = list(left_out(DISK, [(path, "some value")], "disk vda"))
    assert bool(told) == (known.fate is Fate.LEFT_OUT)
    if known is UNKNOWN:
        assert "some value" in told[0].what
        assert path in told[0].why


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (disk(inside="<shareable/>"), "disk vda: shareable"),
        (disk(inside="<iotune><total_iops_sec>9</total_iops_sec></iotune>"), "total_iops_sec=9"),
        (disk(inside="<backingStore type='file'><format type='raw'/></backingStore>"), "type=file"),
        (disk(inside="<mirror type='file' job='copy'/>"), "disk vda: mirror"),
        (disk(inside="<encryption format='luks'/>"), "encryption format=luks"),
        (disk(driver="error_policy='stop'"), "driver error_policy=stop"),
        (disk(driver="rerror_policy='ignore'"), "driver rerror_policy=ignore"),
        (disk(of="model='virtio-transitional'"), "model=virtio-transitional"),
        (disk(inside="<wonder colour='blue'/>"), "wonder colour=blue"),
        (disk(driver="fsync='never'"), "driver fsync=never"),
        (disk() + "<hostdev mode='subsystem' type='scsi'/>", "hostdev"),
        (disk() + "<filesystem type='mount'/>", "filesystem"),
        (disk() + "<memory model='virtio-pmem'/>", "memory"),
    ],
)
def test_what_is_left_out_is_said(text, expected):
    assert any(expected in one for one in said(domain(text))), said(domain(text))


@pytest.mark.parametrize(
    "text",
    [
        disk(),
        disk(driver="error_policy='report' cache='none' io='native' discard='unmap' packed='on'"),
        disk(inside="<backingStore/><serial>x</serial><boot order='1'/><alias name='ua-a'/>"),
        disk(inside="<blockio logical_block_size='4096' physical_block_size='4096'/>"),
        disk() + "<interface type='user'/><controller type='pci' model='pcie-root'/>",
    ],
)
def test_nothing_is_said_of_what_is_carried_over_or_changes_nothing(text):
    assert said(domain(text)) == []


def test_what_is_carried_over_is_there():
    text = domain(disk(driver="copy_on_read='on' detect_zeroes='unmap' ats='on' queue_size='64'"))
    (made,) = read_likeness(text, None).disks
    attributes = read_kept(str(made.settings["like"])).disk.find("driver").attrib
    assert attributes == {
        "copy_on_read": "on", "detect_zeroes": "unmap", "ats": "on", "queue_size": "64",
    }  # fmt: skip


def test_what_qemu_gets_past_libvirt_is_named_without_paths_and_secrets():
    more = (
        "<qemu:commandline><qemu:arg value='-set'/><qemu:arg value='device.disk0.write-cache=off'/>"
        "<qemu:arg value='-drive'/><qemu:arg value='file=/secret'/><qemu:env name='A' value='s'/>"
        "</qemu:commandline>"
    )
    (told,) = read_likeness(domain(disk(), more=more), None).left_out
    assert told.what == "qemu: commandline=-set -drive"
    assert "secret" not in str(told)


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        ("<transient/>", "discarded when the domain stops"),
        ("<transient shareBacking='yes'/>", "discarded when the domain stops"),
    ],
)
def test_a_disk_that_cannot_be_made_is_left_out_and_none_stands_for_all(inside, why):
    other = disk(inside="<serial>b</serial>").replace("vda", "vdb")
    found = read_likeness(domain(disk(inside=inside) + other), None)
    assert [one.name for one in found.disks] == ["vdb"]
    ((name, reason),) = [(one.what, one.why) for one in found.disks_left_out]
    assert (name, why in reason) == ("disk vda", True)
    third = disk().replace("vda", "vdc")
    three = read_likeness(domain(disk(inside=inside) + other + third), None)
    assert "all-disks" not in scenario_like(three)
    assert "all-disks" in scenario_like(read_likeness(domain(disk() + other + third), None))
    with pytest.raises(UsageError, match=why):
        read_likeness(domain(disk(inside=inside)), None)


@pytest.mark.parametrize(
    ("kind", "why"),
    [("vhostuser", "vhost-user"), ("vhostvdpa", "vDPA"), ("nvme", "QEMU drives itself")],
)
def test_a_disk_that_qemu_does_not_make_is_left_out(kind, why):
    text = disk().replace("type='file'", f"type='{kind}'", 1)
    other = disk().replace("vda", "vdb")
    (left,) = read_likeness(domain(text + other), None).disks_left_out
    assert (left.what, why in left.why) == ("disk vda", True)


def test_a_disk_on_which_nothing_can_be_lost_is_not_tested_and_not_missed():
    seed = disk(inside="<readonly/>").replace("vda", "vdb")
    found = read_likeness(domain(disk() + seed + "<disk device='cdrom'/>"), None)
    assert [one.name for one in found.disks] == ["vda"]
    assert found.disks_left_out == ()
    assert "disk vdb is not tested: it is read-only" in found.differs


def test_an_nvme_disk_is_made_by_qemu_and_so_is_the_rest():
    data = disk(driver="cache='none' io='native'", bus="nvme").replace("vda", "nvme0n1")
    text = domain(
        disk() + "<controller type='nvme' index='0'><serial>d</serial></controller>" + data
    )
    found = likeness(None, text, None)
    settings = [dict(one.settings) for one in found.disks]
    assert [one["bus"] for one in settings] == ["virtio-blk", "nvme"]
    assert settings[1] == {
        "bus": "nvme", "cache": "none", "aio": "native", "format": "raw", "cpus": 2,
    }  # fmt: skip
    assert found.disks_left_out == ()
    assert "libvirt makes no NVMe disk here" in found.differs[0]


@pytest.mark.parametrize("kind", OTHER_HYPERVISORS)
def test_another_hypervisors_domain_is_refused_with_the_preset_that_is_near(kind):
    with pytest.raises(UsageError, match="QEMU is not like it") as refused:
        read_likeness(domain(disk(), kind=kind), None)
    known = {preset.name for preset in all_presets()}
    named = OTHER_HYPERVISORS[kind][1].split(" or ") if OTHER_HYPERVISORS[kind][1] else []
    assert set(named) <= known
    assert all(name in refused.value.hint for name in named)


def test_paths_have_their_values():
    element = ET.fromstring("<disk type='file'><a b='c'>text</a><empty/></disk>")
    assert list(said_below(element)) == [
        ("disk@type", "file"), ("disk/a", "text"), ("disk/a@b", "c"), ("disk/empty", ""),
    ]  # fmt: skip


def test_the_page_says_what_the_tables_do():
    assert PAGE.read_text() == page(), "python tests/support/definitions_page.py writes it"
