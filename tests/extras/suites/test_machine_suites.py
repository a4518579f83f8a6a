# SPDX-License-Identifier: Apache-2.0
"""Versions beside the host's: what apt is told, what a QEMU says of itself, which kernel it is."""

from __future__ import annotations

import os
import stat
import struct
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from powercut.cli.options import built
from powercut.machine.guest import kernel_source
from powercut.machine.guest.kernel_source import given_kernel
from powercut.machine.port import FileDisk, GuestImage
from powercut.machine.qemu.build import examine_qemu, parse_version
from powercut.machine.qemu.spec import QemuSpec
from powercut.machine.qemu.template import TemplateStore, template_key
from powercut.machine.tool import locked
from powercut.model.errors import DeadlineExceeded, HostError, UsageError
from powercut_extras.suites import apt, unpacked
from powercut_extras.suites.apt import Mirrors, SuiteApt, configuration, parse_mirrors, source_lines
from powercut_extras.suites.unpacked import cached_suites, suite_folder

# As apt-get indextargets prints it.
TARGETS = """\
Debian|Debian|http://mirror.example/debian/
Debian|Debian|http://mirror.example/other/
Debian|Debian-Security|http://mirror.example/debian-security/
Somebody|Else|http://else.example/
"""
MIRRORS = Mirrors("http://mirror.example/debian/", "http://mirror.example/debian-security/")
NO_KEYRING = Path("/nowhere/keyring.gpg")
SAYS = "QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds-1)"


def soon() -> float:
    return time.monotonic() + 120


def program(path: Path, says: str = SAYS, status: int = 0) -> Path:
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {status}\n")
    path.chmod(0o755)
    return path


def test_the_mirror_is_the_hosts_own() -> None:
    assert parse_mirrors(TARGETS) == MIRRORS
    with pytest.raises(HostError, match="no Debian mirror") as caught:
        parse_mirrors("Ubuntu|Ubuntu|http://u.example/\n")
    assert "apt-get update" in caught.value.hint


@pytest.mark.parametrize("has_key", [True, False])
def test_a_host_without_debians_mirrors_has_debians_own_by_its_key(
    has_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apt, "run_tool", lambda *_, **__: "Ubuntu|Ubuntu|http://u.example/\n")
    monkeypatch.setattr(apt, "has_debian_key", lambda: has_key)
    if has_key:
        assert apt.host_mirrors(deadline=1.0).main == "http://deb.debian.org/debian"
    else:
        with pytest.raises(HostError, match="no Debian mirror"):
            apt.host_mirrors(deadline=1.0)


def test_a_suite_has_its_updates_and_backports_their_base() -> None:
    def lines(suite: str, mirrors: Mirrors = MIRRORS) -> list[str]:
        return [
            line.removeprefix("deb [arch=amd64] http://mirror.example/")
            for line in source_lines(suite, mirrors, keyring=NO_KEYRING)
        ]

    assert lines("sid") == ["debian/ sid main"]
    assert lines("trixie") == [
        "debian/ trixie main",
        "debian/ trixie-updates main",
        "debian-security/ trixie-security main",
    ]
    assert lines("bookworm-backports") == [
        "debian/ bookworm main",
        "debian/ bookworm-backports main",
        "debian/ bookworm-updates main",
        "debian-security/ bookworm-security main",
    ]
    assert len(lines("trixie", replace(MIRRORS, security=""))) == 2


def test_apt_is_led_away_from_the_host(tmp_path: Path) -> None:
    conf = tmp_path / "apt.conf"
    conf.write_text(configuration(tmp_path, "bookworm-backports"))
    said = subprocess.run(
        ["apt-config", "-c", str(conf), "dump"], capture_output=True, text=True, check=True
    ).stdout
    settings = dict(line.split(" ", 1) for line in said.splitlines() if " " in line)
    assert settings["APT::Default-Release"] == '"bookworm-backports";'
    for name in (
        "Dir::State",
        "Dir::State::lists",
        "Dir::State::status",
        "Dir::Cache",
        "Dir::Cache::archives",
        "Dir::Etc::sourcelist",
        "Dir::Etc::sourceparts",
    ):
        assert settings[name].startswith(f'"{tmp_path}'), name
    # A hook of the host's would run with the host's folders.
    assert not [line for line in said.splitlines() if "Post-Invoke" in line and '""' not in line]


def test_qemus_version_and_its_packagers() -> None:
    assert parse_version(SAYS) == ("11.1.3", "Debian 1:11.1.3+ds-1")
    assert parse_version("QEMU emulator version 10.0.50") == ("10.0.50", "")
    with pytest.raises(HostError, match="this is not QEMU"):
        parse_version("GNU bash, version 5.2.15")


def test_a_qemu_is_named_by_what_it_is(tmp_path: Path) -> None:
    first = examine_qemu(program(tmp_path / "a"))
    assert (first.version, first.package) == ("11.1.3", "Debian 1:11.1.3+ds-1")
    assert len(first.sha256) == 64
    program(tmp_path / "a", "QEMU emulator version 7.2.22")
    second = examine_qemu(tmp_path / "a")
    assert second.version == "7.2.22"
    assert second.identity != first.identity
    # The same binary with other libraries is another QEMU.
    third = examine_qemu(tmp_path / "a", libraries="digest")
    assert third.sha256 == second.sha256
    assert third.identity != second.identity


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path, "No such file"),
        (lambda path: path.write_text("#!/bin/sh\n"), "not an executable file"),
        (lambda path: program(path, status=3), "does not work"),
        (lambda path: program(path, "hello"), "this is not QEMU"),
    ],
)
def test_what_is_no_qemu_is_refused(tmp_path: Path, make, message: str) -> None:
    path = tmp_path / "qemu"
    make(path)
    with pytest.raises(HostError, match=message):
        examine_qemu(path)


def test_templates_of_different_qemus_are_different(tmp_path: Path) -> None:
    guest = GuestImage(Path("/g/kernel"), Path("/g/initramfs"), "6.1", "digest")
    spec = QemuSpec(guest, FileDisk(Path("/disk")), tmp_path / "ctl", tmp_path / "qmp")
    start = program(tmp_path / "qemu")
    build = examine_qemu(start)
    keys = [
        template_key(replace(spec, qemu=found), start, 1 << 20)
        for found in (
            build,
            replace(build, version="10.0.13"),
            replace(build, sha256="0" * 64),
            replace(build, libraries="others"),
            replace(build, package="another"),
        )
    ]
    assert len(set(keys)) == 5


def test_what_a_maker_of_templates_left_goes(tmp_path: Path) -> None:
    store = TemplateStore(tmp_path, lambda path: None)  # type: ignore[arg-type,return-value]
    for name in ("dead.making.1", "busy.making.1", "own.making.1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "ram").write_bytes(b"x")
    with locked(tmp_path / "busy.lock", deadline=soon(), doing="this"):
        store._remove_leftovers("own")
    assert sorted(path.name for path in tmp_path.glob("*.making.*")) == ["busy.making.1"]


def test_a_lock_says_who_waits_for_what(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "lock"
    with (
        locked(file, deadline=soon(), doing="fetching sid"),
        pytest.raises(DeadlineExceeded, match="another process has been fetching sid"),
        locked(file, deadline=time.monotonic(), doing="fetching sid"),
    ):
        pass
    with locked(file, deadline=time.monotonic(), doing="anything"):
        pass


def test_an_unknown_suite_is_a_mistake() -> None:
    with pytest.raises(UsageError, match=r"'potato' is no Debian suite.*trixie, sid"):
        suite_folder("potato")


def test_what_is_cached_is_known_without_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unpacked, "CACHE", tmp_path)
    assert cached_suites() == ()
    folder = tmp_path / "suites/trixie/qemu"
    folder.mkdir(parents=True)
    (folder / "about.json").write_text('{"recipe": 1, "version": "10.0.13", "bytes": 1000}')
    (found,) = cached_suites()
    assert (found.suite, found.qemu, found.kernels, found.size) == ("trixie", "10.0.13", (), 1000)
    (folder / "about.json").write_text('{"recipe": 0}')
    assert cached_suites() == ()


def elf(note: bool) -> bytes:
    """The smallest ELF64 that has one segment, with or without the PVH note."""
    banner = b"Linux version 7.9.1-test (somebody) \0"
    notes = struct.pack("<III4sI", 4, 4, 18, b"Xen\0", 0x1000000) if note else b""
    header = (
        b"\x7fELF\x02\x01\x01"
        + bytes(9)
        + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    )
    segment = struct.pack("<IIQQQQQQ", 4, 0, 120, 0, 0, len(notes), len(notes), 4)
    return header + segment + notes + banner


def test_a_kernel_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_source, "CACHE", tmp_path / "cache")
    (tmp_path / "vmlinux").write_bytes(elf(note=True))
    kernel = given_kernel(tmp_path / "vmlinux", deadline=soon())
    assert (kernel.release, kernel.version, kernel.orders) == ("7.9.1-test", "", {"": ()})
    assert kernel.image.read_bytes() == elf(note=True)
    assert given_kernel(tmp_path / "vmlinux", deadline=soon()) == kernel
    (tmp_path / "vmlinux").write_bytes(elf(note=False))
    assert given_kernel(tmp_path / "vmlinux", deadline=soon()).folder != kernel.folder


@pytest.fixture
def build_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `make` and `make modules_install` leave, as far as it matters."""
    monkeypatch.setattr(kernel_source, "CACHE", tmp_path / "cache")
    (tmp_path / "vmlinux").write_bytes(elf(note=True))
    installed = tmp_path / "modules/lib/modules/7.9.1-test"
    (installed / "kernel/fs/xfs").mkdir(parents=True)
    (installed / "kernel/fs/xfs/xfs.ko").write_bytes(b"a module")
    (installed / "modules.order").write_text("kernel/fs/xfs/xfs.ko\n")
    (installed / "build").symlink_to(tmp_path)
    return tmp_path


@pytest.mark.parametrize("named", ["modules", "modules/lib/modules/7.9.1-test"])
def test_a_kernel_and_its_modules_as_make_leaves_them(build_tree: Path, named: str) -> None:
    (made,) = built([str(build_tree / "vmlinux")], build_tree / named)
    found = sorted(str(path.relative_to(made)) for path in Path(made).rglob("*") if path.is_file())
    assert found == [
        "boot/vmlinuz-7.9.1-test",
        "lib/modules/7.9.1-test/kernel/fs/xfs/xfs.ko",
        "lib/modules/7.9.1-test/modules.order",
    ]
    assert built([str(build_tree / "vmlinux")], build_tree / named) == (made,)
    (build_tree / "modules/lib/modules/7.9.1-test/kernel/fs/xfs/xfs.ko").write_bytes(b"rebuilt")
    assert built([str(build_tree / "vmlinux")], build_tree / named) != (made,)


@pytest.mark.parametrize(
    ("kernels", "modules", "message"),
    [
        (["vmlinux"], "cache", "has no modules of 7.9.1-test, which is what vmlinux is"),
        (["bzImage"], "modules", "no kernel at .*bzImage"),
        (["vmlinux", "vmlinux"], "modules", "goes with one --kernel"),
        ([], "modules", "goes with one --kernel"),
    ],
)
def test_modules_of_another_kernel_are_refused(build_tree, kernels, modules, message):
    with pytest.raises((HostError, UsageError), match=message):
        built([str(build_tree / kernel) for kernel in kernels], build_tree / modules)
    with pytest.raises(UsageError, match="goes with one --kernel"):
        built(["trixie"], build_tree / "modules")


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda path: None, "no kernel at .*No such file"),
        (lambda path: path.mkdir(), "no kernel in"),
        (lambda path: path.write_bytes(b"MZ" + bytes(1000)), "not a bzImage"),
    ],
)
def test_what_is_no_kernel_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepare, message: str
) -> None:
    monkeypatch.setattr(kernel_source, "CACHE", tmp_path / "cache")
    prepare(tmp_path / "given")
    with pytest.raises(HostError, match=message):
        given_kernel(tmp_path / "given", deadline=soon())


def test_qemu_is_started_with_what_it_was_unpacked_with(tmp_path: Path) -> None:
    text = unpacked._START.format(
        suite="sid", loader="root/ld.so", libraries="$here/root/lib", binary="root/qemu"
    )
    (tmp_path / "root").mkdir()
    loader = tmp_path / "root/ld.so"
    loader.write_text('#!/bin/sh\nprintf "%s\\n" "$QEMU_MODULE_DIR" "$@"\n')
    start = tmp_path / "qemu-system-x86_64"
    start.write_text(text)
    for path in (loader, start):
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    (tmp_path / "link").symlink_to(start)
    said = subprocess.run(
        [tmp_path / "link", "-name", "a b"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    here = str(tmp_path)
    assert said[:5] == [
        f"{here}/root/usr/lib/x86_64-linux-gnu/qemu",
        "--inhibit-cache",
        "--library-path",
        f"{here}/root/lib",
        f"{here}/root/qemu",
    ]
    assert said[-2:] == ["-name", "a b"]


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("is expired (invalid since 15d 3h). Updates for it will not be applied.", "have expired"),
        ("is not valid yet (invalid for another 2h).", "are not valid yet"),
        ("could not be fetched", ""),
    ],
)
def test_lists_that_apt_refuses_for_their_date_are_told(tmp_path, monkeypatch, says, told):
    program = tmp_path / "bin" / "apt-get"
    program.parent.mkdir()
    line = f"E: Release file for http://mirror.example/debian/dists/sid/InRelease {says}"
    program.write_text(f"#!/bin/sh\necho '{line}' >&2\nexit 100\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setattr(apt, "host_mirrors", lambda **_: MIRRORS)
    with pytest.raises(HostError) as caught:
        SuiteApt("sid", tmp_path / "suite").prepare(deadline=soon())
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"the package lists of sid {told}") == bool(told)
    assert ("look at `date`" in (caught.value.hint or "")) == bool(told)
    assert ("Check-Valid-Until" in (caught.value.hint or "")) == (told == "have expired")
    assert not (tmp_path / "suite" / "fetched").exists()
