# SPDX-License-Identifier: Apache-2.0
"""RAM templates: the same guest, sooner; and never at the price of a wrong one."""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path

import pytest

from powercut.channel.guest_channel import GuestChannel
from powercut.machine.port import FileDisk, NbdDisk
from powercut.machine.qemu.machine import Origin, find_qemu
from powercut.machine.qemu.spec import QemuSpec
from powercut.machine.qemu.template import TemplateStore
from powercut.model.machine import CacheMode

pytestmark = pytest.mark.usefixtures("nothing_is_left")

START_S = 120
RUN_ID = "00112233445566778899aabbccddeeff"
LOG = [f"run_id={RUN_ID}", "layout=raw", "record=512", "align=512", "capacity=1048576"]
WAL = ["exec", "/bin/wal"]


@pytest.fixture
def store(tmp_path):
    return TemplateStore(tmp_path / "templates", GuestChannel.on_unix)


def start(make_machine, disk, templates, **fields):
    """Starts a machine, returns (origin, notes, hello, facts)."""
    with make_machine(disk, templates=templates, **fields) as (machine, channel):
        machine.start(timeout_s=START_S)
        hello = channel.wait_hello(timeout_s=START_S)
        facts = channel.run("facts", "vda", timeout_s=START_S).facts
        return machine.origin, machine.notes, hello, facts


def given(make_machine, disk, templates, store) -> tuple[Path, QemuSpec]:
    """A copy of this session's template in `store`: its folder, and which machine it is for."""
    with make_machine(disk) as (machine, _):
        whole = templates.obtain(machine.spec, find_qemu(), 64 << 20, timeout_s=START_S)
    return shutil.copytree(whole.ram.parent, store.directory / whole.key), machine.spec


def test_a_restored_guest_is_the_guest_that_boots(make_machine, nbd_server, templates):
    disk = NbdDisk(nbd_server().socket)
    booted = start(make_machine, disk, None)
    restored = start(make_machine, disk, templates)
    again = start(make_machine, disk, templates)
    assert booted[0] is Origin.BOOT
    assert restored[:2] == again[:2] == (Origin.TEMPLATE, [])
    for one in (booted, restored, again):
        one[2].pop("uptime_ns")
    assert booted[2:] == restored[2:] == again[2:]


@pytest.mark.nightly
def test_templates_of_different_disks_and_modes_are_different(
    make_machine, nbd_server, templates, store
):
    small, large = nbd_server(16 << 20), nbd_server()
    given(make_machine, NbdDisk(large.socket), templates, store)
    for server, mode, sectors, cache in [
        (small, CacheMode.NONE, "32768", "write back"),
        (large, CacheMode.NONE, "131072", "write back"),
        (large, CacheMode.DIRECTSYNC, "131072", "write through"),
        (large, CacheMode.WRITEBACK, "131072", "write back"),
    ]:
        origin, notes, _, facts = start(make_machine, NbdDisk(server.socket), store, cache=mode)
        assert (origin, notes) == (Origin.TEMPLATE, [])
        assert (facts["size"], facts["write_cache"]) == (sectors, cache)
    # cache=none and writeback differ on the host only
    assert len([path for path in store.directory.iterdir() if path.is_dir()]) == 3


def test_a_restored_guest_sees_its_own_disk_and_writes_only_to_that(
    make_machine, nbd_server, templates
):
    first, second = nbd_server(), nbd_server()
    write = [*WAL, "write", *LOG, "path=/dev/vda", "sync=fdatasync", "channel=fd:3"]
    read = [*WAL, "read", *LOG, "path=/dev/vda", "channel=fd:3"]

    def run(server, *argv):
        with make_machine(NbdDisk(server.socket), templates=templates) as (machine, channel):
            machine.start(timeout_s=START_S)
            assert machine.origin is Origin.TEMPLATE
            channel.wait_hello(timeout_s=START_S)
            channel.run("flushbufs", "vda", timeout_s=START_S)
            result = channel.run(*argv, timeout_s=START_S)
            assert (result.status, result.error) == (0, "")
            machine.kill(timeout_s=START_S)
            return [(extent.state.name, extent.lsn, extent.count) for extent in result.extents]

    run(first, *write, "records=100")
    assert run(second, *read) == [("ABSENT", 0, 2048)]
    assert run(first, *read) == [("INTACT", 1, 100), ("ABSENT", 0, 1948)]
    assert second.image.read_bytes().count(b"\0") == second.image.stat().st_size


def test_processes_that_want_the_same_template_make_it_once(
    guest_image, make_machine, nbd_server, store, runtime
):
    disk = FileDisk(nbd_server().image)
    made = []

    def obtain(name):
        (runtime / name).mkdir()
        with make_machine(disk) as (machine, _):
            made.append(store.obtain(machine.spec, find_qemu(), 64 << 20, timeout_s=START_S))

    threads = [threading.Thread(target=obtain, args=(f"t{i}",)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2
    assert made[0] == made[1]
    assert made[0].hello["disks"] == "vda"
    assert sorted(path.suffix for path in store.directory.iterdir()) == ["", ".lock"]


def damage_nothing(directory: Path) -> None:
    pass


def truncate_ram(directory: Path) -> None:
    os.truncate(directory / "ram", 4096)


def touch_ram(directory: Path) -> None:
    with (directory / "ram").open("r+b") as ram:
        ram.seek(64 << 20)
        ram.write(b"x")


def flip_state(directory: Path) -> None:
    state = bytearray((directory / "state").read_bytes())
    state[len(state) // 2] ^= 1
    (directory / "state").write_bytes(state)


def remove_about(directory: Path) -> None:
    (directory / "about.json").unlink()


def older_format(directory: Path) -> None:
    about = json.loads((directory / "about.json").read_text())
    (directory / "about.json").write_text(json.dumps(about | {"format": 0}))


DAMAGE = [damage_nothing, truncate_ram, touch_ram, flip_state, remove_about, older_format]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_template_is_made_anew(
    make_machine, nbd_server, templates, store, damage, monkeypatch
):
    """How that is done is the next test's."""
    directory, spec = given(make_machine, NbdDisk(nbd_server().socket), templates, store)
    damage(directory)
    anew = []
    monkeypatch.setattr(store, "_make", lambda key, *_: anew.append(key))
    store.obtain(spec, find_qemu(), 64 << 20, timeout_s=START_S)
    assert anew == ([] if damage is damage_nothing else [directory.name])


@pytest.mark.parametrize("damage", [damage_nothing, flip_state])
def test_a_damaged_template_is_made_anew_before_anybody_uses_it(
    make_machine, nbd_server, templates, store, damage
):
    disk = NbdDisk(nbd_server().socket)
    directory, _ = given(make_machine, disk, templates, store)
    inode = (directory / "state").stat().st_ino
    about = (directory / "about.json").read_text()
    damage(directory)
    origin, notes, hello, _ = start(make_machine, disk, store)
    assert (origin, notes, hello["disks"]) == (Origin.TEMPLATE, [], "vda")
    rebuilt = (directory / "about.json").read_text() != about
    assert rebuilt == (damage is not damage_nothing)
    assert ((directory / "state").stat().st_ino != inode) == rebuilt


def test_a_template_that_fails_is_rebuilt_once_and_the_reason_kept(
    make_machine, nbd_server, templates, store
):
    disk = NbdDisk(nbd_server().socket)
    directory, _ = given(make_machine, disk, templates, store)
    (directory / "state").write_bytes(b"not the state of a machine")
    template = store._load(directory.name)
    assert template is None
    # A store that vouches for its damage: the way a defect in QEMU would look.
    about = json.loads((directory / "about.json").read_text())
    from powercut.machine.qemu.template import Template

    draft = Template(directory.name, directory / "ram", directory / "state", {})
    (directory / "about.json").write_text(json.dumps(store._about(draft, about["hello"])))
    origin, notes, hello, _ = start(make_machine, disk, store)
    assert origin is Origin.TEMPLATE
    assert hello["disks"] == "vda"
    assert len(notes) == 1
    assert "no template was used" in notes[0]


def test_where_no_template_can_be_made_the_guest_boots_and_says_why(
    make_machine, nbd_server, tmp_path
):
    (tmp_path / "file").write_text("in the way")
    store = TemplateStore(tmp_path / "file", GuestChannel.on_unix)
    origin, notes, hello, _ = start(make_machine, NbdDisk(nbd_server().socket), store)
    assert (origin, hello["disks"]) == (Origin.BOOT, "vda")
    assert len(notes) == 1
    assert "no template was used" in notes[0]
