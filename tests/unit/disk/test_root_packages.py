# SPDX-License-Identifier: Apache-2.0
"""A root out of packages: what programs find there, and that no package gets out of it."""

import io
import re
import subprocess
import tarfile
from pathlib import Path

import pytest

from powercut.disk import root_image
from powercut.disk.root_image import (
    ensure_program_image,
    ensure_root_folder,
    ensure_root_image,
)
from powercut.model.errors import UsageError
from powercut.sandbox.confined import find_tool


def tar_of(members) -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, content, fields in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o755
            if content is None:
                info.type = tarfile.DIRTYPE
            elif isinstance(content, bytes):
                info.size = len(content)
            else:
                info.type, info.linkname = tarfile.SYMTYPE, content
            for field, value in fields.items():
                setattr(info, field, value)
            tar.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return data.getvalue()


def package(folder: Path, name: str, *members) -> Path:
    """A package as deb(5) describes it; members are (name, bytes | target | None, fields)."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}_1_amd64.deb"
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": tar_of([("./control", f"Package: {name}\n".encode(), {})]),
        "data.tar.gz": tar_of(members),
    }
    text = b"!<arch>\n"
    for part, data in parts.items():
        text += f"{part:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(data):<10}`\n".encode() + data
        text += b"\n" * (len(data) % 2)
    path.write_bytes(text)
    return path


def base(folder: Path) -> Path:
    return package(
        folder, "base", ("./bin/", None, {}), ("./bin/sh", b"sh", {}),
        ("./usr/bin/mawk", b"awk", {}), ("./usr/share/doc/base/copyright", b"words", {}),
        ("./usr/share/base-passwd/passwd.master", b"root:x:0:0\n", {}),
        ("./var/mail/", None, {"gid": 8}),
        ('./var/a "quoted" name', b"", {"uid": 999, "gid": 70000}),
    )  # fmt: skip


def asked(image: Path, request: str) -> str:
    return run("debugfs", "-R", request, str(image))


def run(tool: str, *words: str) -> str:
    """A tool that an ordinary user's PATH may not have."""
    argv = [str(find_tool(tool)), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@pytest.fixture(autouse=True)
def forgotten():
    ensure_root_image.cache_clear()


def test_what_scripts_of_packages_would_have_made_is_there(tmp_path):
    made = ensure_root_image((base(tmp_path / "debs"),), tmp_path / "cache").path
    assert asked(made, "cat /usr/bin/sh") == "sh"  # /bin is a link, as in every Debian
    assert '"usr/bin"' in asked(made, "stat /bin")
    assert asked(made, "cat /etc/passwd") == "root:x:0:0\n"
    assert '"mawk"' in asked(made, "stat /usr/bin/awk")
    assert "doc" not in asked(made, "ls /usr/share")
    assert not re.search(r"\bwhich\b", asked(made, "ls /usr/bin"))  # of a package that is not there


def test_files_keep_their_owners(tmp_path):
    made = ensure_root_image((base(tmp_path / "debs"),), tmp_path / "cache").path

    def owner(name: str) -> tuple[str, ...]:
        return re.search(r"User: +(\d+) +Group: +(\d+)", asked(made, f"stat {name}")).groups()

    assert owner("/var/mail") == ("0", "8")
    assert owner('"/var/a ""quoted"" name"') == ("999", "70000")
    assert owner("/usr/bin/sh") == ("0", "0")
    run("e2fsck", "-fn", str(made))


@pytest.mark.parametrize(
    ("member", "told"),
    [
        (("../../outside", b"", {}), "leads out of the root"),
        (("x", b"", {"type": tarfile.LNKTYPE, "linkname": "../../etc/passwd"}), "leads out"),
        (("x\n!touch /tmp/escaped", b"", {"uid": 5}), "can only be root's"),
        (("x", b"", {"uid": -1}), "belongs to -1:0"),
        (("x", b"", {"gid": 1 << 32}), "which are none"),
    ],
)
def test_a_package_stays_in_its_root(tmp_path, member, told):
    cache = tmp_path / "cache"
    with pytest.raises(UsageError, match=re.escape(told)):
        ensure_root_image((package(tmp_path / "debs", "evil", member),), cache)
    assert list((cache / "roots").iterdir()) == []


def test_the_versions_name_the_root_and_nothing_is_unpacked_again(tmp_path, monkeypatch):
    debs = (base(tmp_path / "debs"), package(tmp_path / "debs", "more", ("./opt/x", b"x", {})))
    cache = tmp_path / "cache"
    first = ensure_root_image(debs, cache)
    unpacked = ensure_root_folder(debs, cache)
    assert unpacked.sha256 == first.sha256
    assert (unpacked.path / "usr/bin/sh").read_text() == "sh"
    assert (unpacked.path / "opt/powercut").is_dir()
    ensure_root_image.cache_clear()
    ensure_root_folder.cache_clear()
    monkeypatch.setattr(root_image, "add_packages", None)
    assert ensure_root_image(debs[::-1], cache) == first
    assert ensure_root_folder(debs, cache) == unpacked
    monkeypatch.undo()
    ensure_root_image.cache_clear()
    assert ensure_root_image(debs[:1], cache).sha256 != first.sha256


def test_a_changed_program_makes_no_new_root(tmp_path):
    program = tmp_path / "program"
    program.mkdir()
    (program / "test.sh").write_text("one")
    debs, cache = (base(tmp_path / "debs"),), tmp_path / "cache"
    root, first = ensure_root_image(debs, cache), ensure_program_image(program, cache)
    assert asked(first.path, "cat /test.sh") == "one"
    assert "proc" not in asked(first.path, "ls /")
    (program / "test.sh").write_text("two")
    ensure_root_image.cache_clear()
    ensure_program_image.cache_clear()
    assert ensure_root_image(debs, cache) == root
    assert ensure_program_image(program, cache).sha256 != first.sha256


def test_a_package_that_is_none_is_an_error(tmp_path):
    path = tmp_path / "x_1_amd64.deb"
    path.write_bytes(b"no archive")
    with pytest.raises(Exception, match="a package could not be unpacked"):
        ensure_root_image((path,), tmp_path / "cache")
