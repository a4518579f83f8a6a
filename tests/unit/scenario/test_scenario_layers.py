# SPDX-License-Identifier: Apache-2.0
"""Layers between disk and file system: their tables, and what cannot be."""

import pytest
from pydantic import TypeAdapter, ValidationError

from extras import extra
from powercut.model.errors import UsageError
from powercut.rig import commands
from powercut.scenario.layers import AnyLayer, stack_of
from powercut.scenario.refusal import refusals
from powercut.scenario.settings import Parameters

MIB = 1 << 20
ROW = TypeAdapter(AnyLayer)


def stack(*rows, sizes=(64 * MIB,)):
    return stack_of([ROW.validate_python(row) for row in rows], sizes)


def cell(*rows, disk=None, workload=None, filesystem="ext4", errors=()):
    program = {"kind": "program", "command": "/bin/true", "folder": "/", **(workload or {})}
    groups = {"workload": program, "filesystem": {"type": filesystem}}
    settings = {"size": 64 * MIB, "layers": rows, "errors": errors, **(disk or {})}
    if program["kind"] == "wal":
        groups = {}
    return Parameters.model_validate({"disk": settings, **groups})


@pytest.mark.parametrize(
    ("row", "kind", "table"),
    [
        ({"layer": "crypt"}, "crypt", f"aes-xts-plain64 {bytes(range(64)).hex()} 0 @disk0 0"),
        ({"layer": "linear"}, "linear", "@disk0 2048"),
        ({"layer": "integrity"}, "integrity", "@disk0 0 - J 1 internal_hash:crc32c"),
        (
            {"layer": "integrity", "mode": "bitmap"},
            "integrity",
            "@disk0 0 - B 1 internal_hash:crc32c",
        ),
        (
            {"layer": "integrity", "mode": "direct"},
            "integrity",
            "@disk0 0 - D 1 internal_hash:crc32c",
        ),
    ],
)
def test_each_row_has_its_table(row, kind, table):
    made = stack(row)
    (target,) = made.targets
    assert (target.kind, target.table) == (kind, table)
    # Checksums are there once a sector was written, so each is, as integritysetup does.
    filled = ("0",) if kind == "integrity" else ()
    assert target.words == (f"layer0.0 {target.sectors} {kind} {table}", *filled)
    assert made.sectors == target.sectors <= 64 * MIB // 512
    assert ROW.validate_python(row).promise


def test_checksums_without_a_journal_a_writecache_and_a_parity_without_a_disk_are_unsafe():
    unsafe = [
        {"layer": "integrity", "mode": "direct"},
        {"layer": "crypt", "tags": "direct"},
        {"layer": "writecache"},
        {"layer": "raid5", "missing": 0},
        {"layer": "raid6", "missing": 3},
    ]
    names = ("crypt", "linear", "integrity", "thin", "cache", "snapshot", "era", "clone")
    names += ("stripe", "mirror", "raid1", "raid10", "raid5", "raid6")
    rows = [*({"layer": name} for name in names), *unsafe]
    assert [row for row in rows if not ROW.validate_python(row).is_safe] == unsafe


@pytest.mark.parametrize(
    ("row", "tables"),
    [
        (
            {"layer": "thin"},
            [
                *("linear @disk0 0", "linear @disk0 8192"),
                *("thin-pool @layer0.0.meta @layer0.0.data 128 0", "thin @layer0.0.pool 0"),
            ],
        ),
        (
            {"layer": "cache", "mode": "writethrough"},
            [
                *("linear @disk0 0", "linear @disk0 8192", "linear @disk0 32768"),
                "cache @layer0.0.meta @layer0.0.fast @layer0.0.slow 128 1 writethrough smq 0",
            ],
        ),
        (
            {"layer": "writecache"},
            [
                *("linear @disk0 0", "linear @disk0 114688"),
                "writecache s @layer0.0.origin @layer0.0.cache 512 0",
            ],
        ),
        (
            {"layer": "snapshot"},
            [
                *("linear @disk0 0", "linear @disk0 98304"),
                "snapshot @layer0.0.volume @layer0.0.store P 8",
            ],
        ),
        (
            {"layer": "snapshot", "side": "origin"},
            [
                *("linear @disk0 0", "linear @disk0 98304"),
                "snapshot @layer0.0.volume @layer0.0.store P 8",
                "snapshot-origin @layer0.0.volume",
            ],
        ),
        (
            {"layer": "era"},
            [
                *("linear @disk0 0", "linear @disk0 8192"),
                "era @layer0.0.meta @layer0.0.data 128",
            ],
        ),
        (
            {"layer": "clone"},
            [
                *("linear @disk0 0", "linear @disk0 8192", "linear @disk0 69632"),
                "clone @layer0.0.meta @layer0.0.copy @layer0.0.source 128 1 no_hydration",
            ],
        ),
        (
            {"layer": "crypt", "tags": "journal"},
            [
                "integrity @disk0 0 48 J 1 fix_padding",
                f"crypt capi:authenc(hmac(sha256),xts(aes))-random {bytes(range(64)).hex()}"
                f"{bytes(range(32)).hex()} 0 @layer0.0.tags 0 1 integrity:48:aead",
            ],
        ),
    ],
)
def test_a_row_of_several_devices(row, tables):
    made = stack(row)
    assert [f"{target.kind} {target.table}" for target in made.targets] == tables
    ends = [
        int(target.table.split()[-1]) + target.sectors
        for target in made.targets
        if target.kind == "linear"
    ] or [made.sectors]
    assert all(end <= 64 * MIB // 512 for end in ends)
    assert ROW.validate_python(row).promise


def test_a_mirror_lies_over_all_disks_and_begins_in_step():
    made = stack({"layer": "crypt"}, {"layer": "raid1"}, sizes=(64 * MIB, 32 * MIB))
    assert [target.name for target in made.targets][:2] == ["layer0.0", "layer0.1"]
    mirror = made.targets[-1]
    pairs = "@layer1.0.meta0 @layer1.0.data0 @layer1.0.meta1 @layer1.0.data1"
    assert mirror.table == f"raid1 3 0 region_size 1024 2 {pairs}"
    assert mirror.words[1] == f"?raid raid1 4 0 region_size 1024 nosync 2 {pairs}"
    assert made.sectors == 28 * MIB // 512
    assert made.modules == ("dm-crypt", "raid1", "dm-raid")


def legs(*numbers):
    return " ".join(
        "- -" if number is None else f"@layer0.0.meta{number} @layer0.0.data{number}"
        for number in numbers
    )


@pytest.mark.parametrize(
    ("row", "disks", "word", "mib"),
    [
        ({"layer": "raid1"}, 2, "raid1 3 0", 60),
        ({"layer": "raid10"}, 4, "raid10 3 8", 120),
        ({"layer": "raid5"}, 3, "raid5_ls 3 8", 120),
        ({"layer": "raid6"}, 4, "raid6_zr 3 8", 120),
    ],
)
def test_an_array_is_as_large_as_its_level_makes_it(row, disks, word, mib):
    made = stack(row, sizes=(64 * MIB,) * disks)
    array = made.targets[-1]
    assert array.table == f"{word} region_size 1024 {disks} {legs(*range(disks))}"
    assert (made.sectors, array.after) == (mib * MIB // 512, "")
    # md computes both parities of RAID 6 itself; zeroes are in step with one.
    assert bool(array.made) is (row["layer"] != "raid6")


@pytest.mark.parametrize("level", ["raid1", "raid5", "raid6", "raid10"])
def test_a_disk_that_does_not_come_back_is_missing_after_the_cut_alone(level):
    array = stack({"layer": level, "missing": 1}, sizes=(64 * MIB,) * 4).targets[-1]
    words, _, _ = array.table.partition(legs(0))
    assert array.table == words + legs(0, 1, 2, 3)
    assert array.after == words + legs(0, None, 2, 3)
    assert array.words[-1] == f"~{array.after}"


def test_an_array_has_as_many_disks_as_it_takes():
    for level, fewest in (("raid1", 2), ("raid5", 3), ("raid6", 4), ("raid10", 4)):
        with pytest.raises(UsageError, match=f"{level} takes {fewest} disks or more"):
            stack({"layer": level}, sizes=(64 * MIB,) * (fewest - 1))
        with pytest.raises(UsageError, match=f"`missing` is one of 0 to {fewest - 1}"):
            stack({"layer": level, "missing": fewest}, sizes=(64 * MIB,) * fewest)


def test_stripes_and_the_older_mirror_lie_over_all_disks():
    sizes = (64 * MIB, 32 * MIB)
    stripes, mirror = (stack({"layer": name}, sizes=sizes) for name in ("stripe", "mirror"))
    assert stripes.targets[-1].table == "2 128 @disk0 0 @disk1 0"
    assert stripes.sectors == 64 * MIB // 512
    more = "2 @disk0 2048 @disk1 2048 1 handle_errors"
    assert mirror.targets[-1].table == f"disk 2 @layer0.0.log 1024 {more}"
    assert mirror.targets[-1].words[1] == f"?mirror disk 3 @layer0.0.log 1024 nosync {more}"
    assert mirror.sectors == 31 * MIB // 512


def test_what_a_layer_begins_with_is_copied_past_it_where_it_keeps_that():
    for row in ({"layer": "snapshot"}, {"layer": "snapshot", "side": "origin"}, {"layer": "clone"}):
        top = stack(row).targets[-1]
        kept = "source" if row["layer"] == "clone" else "volume"
        assert top.words[1] == f"?linear @layer0.0.{kept} 0"


def test_a_thin_volume_is_made_once():
    pool = stack({"layer": "thin"}).targets[2]
    assert pool.words[1:] == ("!create_thin 0",)


def test_a_layer_lies_on_the_one_before_it():
    made = stack({"layer": "linear"}, {"layer": "integrity"}, {"layer": "crypt"})
    assert [target.name for target in made.targets] == ["layer0.0", "layer1.0", "layer2.0"]
    assert "@layer0.0 " in made.targets[1].table
    assert "@layer1.0 " in made.targets[2].table
    assert made.sectors == made.targets[2].sectors == made.targets[1].sectors
    assert made.modules == ("dm-integrity", "dm-crypt")


ON_XFS = {"layer": "file", "filesystem": "xfs"}


def test_an_image_lies_on_half_of_the_disk_in_a_file_system_of_the_host():
    row = {**ON_XFS, "mount": ["noatime", "logbufs=2"], "preallocation": "falloc", "cache": "none"}
    made = stack(row, {"layer": "crypt"})
    assert made.targets[0].words == (
        "layer0.0 65536 file @disk0 xfs falloc none noatime,logbufs=2",
    )
    assert made.targets[1].table.endswith(" 0 @layer0.0 0")
    assert (made.formatted, made.sectors) == ("xfs", 32 * MIB // 512)
    assert stack(ON_XFS).targets[0].table == "@disk0 xfs off writeback"
    assert stack({"layer": "linear"}).formatted == ""
    assert ROW.validate_python(row).title == "image on xfs (none, falloc, noatime, logbufs=2)"


@pytest.mark.parametrize(
    ("change", "promise", "layer"),
    [
        ({}, "a flush is an fsync of the image; the host's power", None),
        ({"cache": "none"}, "a flush is an fsync of the image; the host's power", None),
        ({"cache": "unsafe"}, "a flush does nothing", "hypervisor"),
        ({"mount": ["nobarrier"]}, "which sends no flush", "file system"),
    ],
)
def test_what_an_image_promises_and_whose_fault_it_is(change, promise, layer):
    row = {**ON_XFS, **change}
    image = ROW.validate_python(row)
    assert promise in image.promise
    assert image.is_safe is (layer is None)
    causes_of = extra("certify.known_causes").causes_of
    assert [cause.layer for cause in causes_of(cell(row))] == ([layer] if layer else [])


def test_a_host_s_file_system_lies_on_the_one_disk_itself_and_fits():
    with pytest.raises(UsageError, match="`file` comes first"):
        stack({"layer": "crypt"}, ON_XFS)
    with pytest.raises(UsageError, match="`file` comes first"):
        stack(ON_XFS, {"layer": "raid1"}, sizes=(64 * MIB, 64 * MIB))
    with pytest.raises(UsageError, match="btrfs below needs 109 MiB"):
        stack({**ON_XFS, "filesystem": "btrfs"})


@pytest.mark.parametrize(
    "row",
    [
        {"layer": "sh -c true"},
        ON_XFS | {"filesystem": "tmpfs"},
        ON_XFS | {"mount": ["noatime,ro"]},
        ON_XFS | {"mount": ["a b"]},
        ON_XFS | {"mount": ["logdev=/dev/sda"]},
        {"layer": "file"},
        {"layer": "crypt", "table": "0 @disk0"},
        {"layer": "crypt", "key": "x 0 /dev/sda 0"},
        {"layer": "integrity", "mode": "J 1 @disk0"},
        {"mode": "journal"},
        "crypt",
    ],
)
def test_a_table_is_made_of_known_rows_alone(row):
    with pytest.raises(ValidationError):
        cell(row)


def test_a_disk_that_is_too_small_and_disks_that_nothing_joins():
    with pytest.raises(UsageError, match=r"integrity \(journal\): the disk is too small"):
        stack({"layer": "integrity"}, sizes=(2 * MIB,))
    with pytest.raises(UsageError, match="no layer makes one device of several disks"):
        stack({"layer": "crypt"}, sizes=(8 * MIB, 8 * MIB))


def refused(parameters, key):
    return [why for where, why in refusals(parameters) if where == key]


def test_only_programs_in_user_mode_linux_have_layers():
    crypt = {"layer": "crypt"}
    assert refused(cell(crypt), "disk.layers") == []
    assert refused(cell(crypt, workload={"root": "debian", "where": "no-vm"}), "disk.layers") == []
    for elsewhere in ({"where": "loop"}, {"root": "debian"}, {"kind": "wal", "command": None}):
        workload = {key: value for key, value in elsewhere.items() if value is not None}
        (why,) = refused(cell(crypt, workload=workload), "disk.layers")
        assert "in User-Mode Linux alone" in why


def test_what_goes_with_layers_and_what_does_not():
    crypt, beside = {"layer": "crypt"}, {"name": "b", "size": 64 * MIB, "holds": "layers"}
    assert refused(cell(disk={"also": [beside]}), "disk.also") == [
        "`holds: layers` goes with disk.layers"
    ]
    folder = {**beside, "holds": "folder"}
    assert refused(cell(crypt, disk={"also": [folder]}), "disk.also")
    assert refused(cell(crypt, disk={"also": [beside]}), "disk.layers") == [
        "no layer makes one device of several disks"
    ]
    assert not refused(cell(crypt, errors=[{"on": "write"}]), "disk.errors")
    tight = cell({"layer": "integrity"}, disk={"size": 18 * MIB}, filesystem="xfs")
    assert refused(tight, "disk.size") == ["xfs needs 16 MiB, and the layers leave 15808 KiB of it"]


def test_recovery_activates_what_the_settings_say():
    parameters = cell({"layer": "linear"}, {"layer": "crypt"})
    layers = commands.recovery_plan(parameters, bytes(16)).layers
    assert layers is not None
    words = parameters.disk.stack.targets
    assert layers.lines == (*words[0].words, *words[1].words)
    assert layers.modules == ("dm-crypt",)
    assert commands.base_image(parameters).size == 63 * MIB
    assert commands.recovery_plan(cell(), bytes(16)).layers is None
