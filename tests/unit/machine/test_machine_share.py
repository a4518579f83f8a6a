# SPDX-License-Identifier: Apache-2.0
"""How a guest gets a folder of the host: what is asked for, and the command lines that follow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from powercut.machine import share as module
from powercut.machine.port import GuestImage
from powercut.machine.share import FolderShare, qemu_argv, share_argv
from powercut.model.errors import UsageError
from powercut.model.machine import Accelerator
from powercut.model.machine_identity import ANY_MACHINE

IMAGE = GuestImage(Path("/g/kernel"), Path("/g/initramfs"), "6.1", "digest")


def argv(text: str, folder: str = "/data") -> list[str]:
    share = FolderShare.parse(text)
    return qemu_argv(share, Path(folder), IMAGE, Accelerator.TCG, Path("/usr/bin/qemu"))


def test_what_is_not_said_is_as_the_product_has_it() -> None:
    assert str(FolderShare.parse("virtiofs")) == "virtiofs,cache=auto,writeback=off"
    assert str(FolderShare.parse("9p")) == "9p,cache=none,security_model=none,writeout=off"
    text = "9p,cache=loose,security_model=passthrough,writeout=immediate"
    assert str(FolderShare.parse(text)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nfs", "'nfs' is no share: there are virtiofs and 9p"),
        ("", "'' is no share: there are virtiofs and 9p"),
        ("virtiofs,cache=loose", "'cache=loose' is no setting of virtiofs"),
        ("9p,security_model=mapped-xattr", "is no setting of 9p"),
        ("9p,readonly", "'readonly' is no setting of 9p"),
    ],
)
def test_what_is_no_share_is_refused(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        FolderShare.parse(text)


def test_the_root_of_9p_is_read_only_and_the_folder_is_as_asked() -> None:
    text = "9p,security_model=mapped-file,writeout=immediate"
    folders = [word for word in argv(text, "/a,b") if word.startswith("local,")]
    assert folders == [
        "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
        "local,id=folder,path=/a,,b,security_model=mapped-file,writeout=immediate",
    ]


def test_virtiofs_shares_the_guests_memory() -> None:
    words = argv("virtiofs")
    assert "pc,memory-backend=ram" in words
    assert [word for word in words if word.startswith("vhost-user-fs")] == [
        "vhost-user-fs-pci,chardev=root,tag=root",
        "vhost-user-fs-pci,chardev=folder,tag=folder",
    ]


def test_what_is_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "VIRTIOFSD", tmp_path)
    monkeypatch.setattr(module, "ensure_guest_image", lambda flavour: IMAGE)
    monkeypatch.setattr(module, "best_accelerator", lambda: (Accelerator.TCG, "so"))
    monkeypatch.setattr(module, "find_qemu", lambda: Path("/usr/bin/qemu"))
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.chdir(tmp_path)
    share = FolderShare.parse("virtiofs,cache=always,writeback=on")
    orders = json.loads(share_argv(share, Path("/a,b"), ["prog", "run", "/a,b"], ANY_MACHINE)[-1])
    served = orders["servers"]["folder"][-1]
    assert served == r"source=/a\,b,cache=always,writeback,sandbox=chroot,log_level=err"
    words = orders["words"]
    assert words[:5] == ["virtiofs", "", "", "/a,b", str(tmp_path)]
    assert words[5:7] == [ANY_MACHINE.mac, ANY_MACHINE.machine_id]
    count = int(words[7])
    assert "POWERCUT_FD=3" in words[8 : 8 + count]
    assert words[8 + count :] == ["/usr/bin/env", "prog", "run", "/a,b"]
