# SPDX-License-Identifier: Apache-2.0
"""Who reaches what virtiofsd serves: QEMU's one connection, and no other process of the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from powercut.machine import share as module
from powercut.machine.share import VIRTIOFSD, FolderShare, _servers

pytestmark = [
    pytest.mark.skipif(not VIRTIOFSD.exists(), reason=f"no {VIRTIOFSD}"),
    pytest.mark.root,  # virtiofsd of QEMU 7.2 needs it
]

_GUEST = r"""
import json, os, re, socket, struct, sys

found, connections = {}, []
for word in sys.argv:
    if not (chardev := re.fullmatch("socket,id=([a-z]+),fd=([0-9]+)", word)):
        continue
    connection = socket.socket(fileno=int(chardev[2]))
    connections.append(connection)  # a server ends with its connection
    # vhost-user: VHOST_USER_GET_FEATURES, version 1, no payload; the answer has 8 bytes.
    connection.sendall(struct.pack("=III", 1, 1, 0))
    answer = connection.recv(20, socket.MSG_WAITALL)
    peer = struct.unpack("=3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    found[chardev[1]] = [len(answer), peer[1]]
servers = {}
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        argv = open(f"/proc/{pid}/cmdline").read().split("\0")
        parent = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
        if parent == os.getpid() and "virtiofsd" in argv[0]:
            mounts = [line.split()[5].split(",")[0] for line in open(f"/proc/{pid}/mountinfo")]
            servers["root" if "source=/," in argv[3] else "folder"] = sorted(set(mounts))
    except OSError:
        pass
names = [line.split()[-1] for line in open("/proc/net/unix") if "powercut-" in line]
listening = [name for name in names if "-root-" in name or "-folder-" in name]
listening += [name for name in names if "powercut-share" in name and os.path.exists(name)]
print(json.dumps({"connected": found, "mounts": servers, "listening": listening}))
"""


def _become(tmp_path: Path) -> dict[str, dict[str, list[object]]]:
    """What stands in QEMU's place finds, with the real virtiofsd."""
    guest, empty, folder = tmp_path / "guest.py", tmp_path / "initramfs", tmp_path / "folder"
    guest.write_text(_GUEST)
    empty.write_bytes(b"")
    folder.mkdir()
    orders = {
        "qemu": [sys.executable, str(guest)],
        "servers": _servers(FolderShare.parse("virtiofs"), folder),
        "initramfs": str(empty),
        "words": [],
    }
    # A namespace of processes, so that the servers end with it.
    done = subprocess.run(
        [
            *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
            *(sys.executable, "-m", module.__name__, json.dumps(orders)),
        ],
        env={**os.environ, "POWERCUT_FD": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found: dict[str, dict[str, list[object]]] = json.loads(done.stdout)
    return found


def test_nothing_listens_where_another_could_connect(tmp_path: Path) -> None:
    """The servers had abstract sockets: another user's connection came first, 2 of 2."""
    found = _become(tmp_path)
    assert found["listening"] == []
    assert {name: answer[0] for name, answer in found["connected"].items()} == {
        "root": 20,
        "folder": 20,
    }


def test_the_root_is_served_from_read_only_mounts(tmp_path: Path) -> None:
    assert _become(tmp_path)["mounts"]["root"] == ["ro"]
