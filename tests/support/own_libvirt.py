# SPDX-License-Identifier: Apache-2.0
"""A libvirtd of the tests' own: its sockets, settings and state are nobody else's."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

DAEMON = shutil.which("libvirtd", path=os.environ.get("PATH", "") + ":/usr/sbin")
START_S = 120
NAMESPACE = ("unshare", "--mount", "--propagation", "private")

ALONE = """
set -e
for folder in /run /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt; do
    mkdir -p "$folder" && mount -t tmpfs own "$folder"
done
mkdir /run/libvirt
# Debian's libvirt 9 asks for this user and group before it reads whom to take instead.
for kind in passwd group; do
    getent $kind libvirt-qemu >/dev/null && continue
    cp /etc/$kind /run/$kind
    echo 'libvirt-qemu:x:64055:64055::/:/usr/sbin/nologin' >> /run/$kind
    mount --bind /run/$kind /etc/$kind
done
cat > /etc/libvirt/qemu.conf <<'END'
user = "root"
group = "root"
stdio_handler = "file"
security_driver = "none"
END
printf 'unix_sock_dir = "%s"\\nauth_unix_rw = "none"\\n' "$1" > /etc/libvirt/libvirtd.conf
exec "$2" -f /etc/libvirt/libvirtd.conf
"""


def absent() -> str:
    """Why there can be none here; empty if there can."""
    reasons = []
    if DAEMON is None:
        reasons.append("no libvirtd (apt-get install libvirt-daemon libvirt-daemon-driver-qemu)")
    if importlib.util.find_spec("libvirt") is None:
        reasons.append("no Python module libvirt (pip install libvirt-python)")
    return "; ".join(reasons)


@contextlib.contextmanager
def own_libvirtd() -> Iterator[str]:
    """One that answers; yields the connection's URI."""
    with tempfile.TemporaryDirectory(prefix="pc-libvirt-") as name:
        log = Path(name, "libvirtd.log")
        alone = [*NAMESPACE, "sh", "-c", ALONE, "sh"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*alone, name, str(DAEMON)], stdout=output, stderr=output, start_new_session=True
            )
        try:
            socket = Path(name, "libvirt-sock")
            end = time.monotonic() + START_S
            while not socket.exists():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.05)
            yield f"qemu+unix:///system?socket={socket}"
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
