# SPDX-License-Identifier: Apache-2.0
"""The shared memory of the uml engine: Python and C agree byte for byte."""

import re
import subprocess

import numpy as np
import pytest

from powercut.model.errors import HostError
from powercut.model.observation import Extent
from powercut.paths import ROOT
from powercut.recover.port import FileExtent, FilePlace
from powercut.recover.uml import share as uml_share
from powercut.recover.uml.engine import places_in
from powercut.recover.uml.share import (
    PAGE,
    PATCH_DTYPE,
    PATCHED_AT,
    STEPS,
    After,
    BarePath,
    Flag,
    Share,
    Step,
    Verb,
)
from powercut.wal.layout import SlotState

HEADER = ROOT / "guests" / "uml" / "share.h"

PROGRAM = """
#include <stdio.h>
#include <string.h>
#include "%s"
#include "%s"
int main(void)
{
    static union { struct pcu_page page; unsigned char bytes[sizeof(struct pcu_page)]; } u;
    struct pcu_patch patch = {0x1111, 0x2222, 0x3333};
    struct pc_extent extent = {5, 6, 7, PC_SLOT_TORN, 9};
    u.page.magic = PCU_MAGIC; u.page.verb = PCU_RECOVER;
    u.page.sequence = 3; u.page.done = 4; u.page.capacity = 5; u.page.disk_size = 6;
    u.page.chunk = 7; u.page.offset = 8; u.page.length = 9; u.page.count = 10;
    u.page.answer = 11; u.page.reads = 12; u.page.after_answer = 13;
    u.page.after_lines = 14; u.page.first_lsn = 15; u.page.acked = 16; u.page.attempted = 17;
    u.page.flags = PCU_FLAG_AFTER | PCU_FLAG_RECORD; u.page.after = PCU_AFTER_DONE;
    u.page.track = 20; u.page.step = PCU_STEP_MOUNT;
    u.page.error = 22; u.page.status = 23; u.page.limit_ms = 24;
    for (unsigned i = 0; i < PCU_STEPS; i++)
        u.page.step_ns[i] = 100 + i;
    strcpy(u.page.what, "mount ext4");
    fwrite(u.bytes, sizeof u.bytes, 1, stdout);
    fwrite(&patch, sizeof patch, 1, stdout);
    fwrite(&extent, sizeof extent, 1, stdout);
    struct pcu_file file = {.mode = 0100644, .path = 4, .extents = 1};
    struct pcu_extent place = {.disk = 8192, .file = 512, .length = 1024};
    fwrite(&file, sizeof file, 1, stdout);
    fwrite("a/b\xff", 4, 1, stdout);
    fwrite(&place, sizeof place, 1, stdout);
    return 0;
}
"""


def from_c(tmp_path) -> bytes:
    source = tmp_path / "page.c"
    source.write_text(PROGRAM % (HEADER, ROOT / "workloads" / "common" / "wire.h"))
    binary = tmp_path / "page"
    subprocess.run(["cc", "-std=gnu17", "-o", str(binary), str(source)], check=True, timeout=60)
    return subprocess.run([str(binary)], check=True, capture_output=True, timeout=120).stdout


def test_the_page_the_patch_and_the_extent_have_one_layout(tmp_path):
    raw = from_c(tmp_path)
    size = uml_share.PAGE_FORMAT.size
    packed = uml_share.PAGE_FORMAT.pack(
        uml_share.MAGIC, Verb.RECOVER, *range(3, 18), Flag.AFTER | Flag.RECORD,
        After.DONE, 20, Step.MOUNT, 22, 23, 24, *range(100, 100 + STEPS),
        b"mount ext4",
    )  # fmt: skip
    assert raw[:size] == packed
    patch = np.array([(0x1111, 0x2222, 0x3333)], dtype=PATCH_DTYPE)
    assert raw[size : size + 24] == patch.tobytes()
    extent = uml_share.EXTENT_FORMAT.pack(5, 6, 7, SlotState.TORN, 9)
    assert raw[size + 24 : size + 24 + len(extent)] == extent
    listed = raw[size + 24 + len(extent) :]
    place = FilePlace("a/b\N{REPLACEMENT CHARACTER}", False, (FileExtent(8192, 512, 1024),))
    assert places_in(memoryview(listed)) == (place,)
    assert places_in(memoryview(b"")) == ()
    for cut in range(1, len(listed)):
        with pytest.raises(HostError, match="list of files"):
            places_in(memoryview(listed[:cut]))
    far = listed[:-8] + (1 << 63).to_bytes(8, "little")
    with pytest.raises(HostError, match="no disk has"):
        places_in(memoryview(far))


def test_requests_land_where_c_looks_for_them(tmp_path):
    share = Share(1 << 16)
    share.prepare_boot(6, 7)
    share.ask(Verb.RECOVER, offset=8, length=9, count=10, track=13, flags=Flag.RECORD, limit_ms=24)
    fields = uml_share.PAGE_FORMAT.unpack_from(share._map, 0)
    assert fields[:10] == (uml_share.MAGIC, Verb.RECOVER, 1, 0, 1 << 16, 6, 7, 8, 9, 10)
    assert (fields[17], fields[19], fields[23]) == (Flag.RECORD, 13, 24)
    assert share.answer() is None, "the request is not its own answer"
    share.put(uml_share.EXTENT_FORMAT.pack(0, 4, 1, 1, 0))
    assert share.extents(32) == (Extent(0, 4, SlotState.INTACT, 1, 0),)
    share.close()
    share.close()


def test_every_number_is_that_of_the_header():
    text = HEADER.read_text()
    kinds = (
        (Verb, "PCU_"),
        (Step, "PCU_STEP_"),
        (BarePath, "PCU_PATH_"),
        (Flag, "PCU_FLAG_"),
        (After, "PCU_AFTER_"),
    )
    for kind, prefix in kinds:
        for member in kind:
            assert re.search(rf"\b{prefix}{member.name} = {member.value}\b", text), member
    assert f"#define PCU_PAGE {PAGE}u" in text


@pytest.mark.parametrize("pages", [[0], [3], [1, 2, 3], [0, 2, 3, 7], [3, 4, 9]])
def test_each_run_of_pages_is_one_patch(pages):
    """Whichever page is the first: none stays as it was."""
    share = Share(2 * PATCHED_AT)
    try:
        content = np.repeat(np.array(pages, dtype=np.uint8), PAGE)
        count = share.put_pages(np.array(pages, dtype=np.int64), content)
        patches = share.area[: count * PATCH_DTYPE.itemsize].view(PATCH_DTYPE)
        disk = np.full(10 * PAGE, 99, dtype=np.uint8)
        for offset, length, data in patches.tolist():
            disk[offset : offset + length] = share.area[data : data + length]
        assert disk.reshape(-1, PAGE)[:, 0].tolist() == [
            page if page in pages else 99 for page in range(10)
        ]
        assert count == sum(page - 1 not in pages for page in pages)
        del patches
    finally:
        share.close()
