# SPDX-License-Identifier: Apache-2.0
"""A command in a QEMU guest that finds a folder of the host at its usual path, by virtiofs or 9p.

The guest's root is the host's own, shared read-only, so the command is the host's, with its
libraries.  The folder is a share of its own, with the settings under test.  The guest is the small
one, whose PID 1 finds what to do in its initramfs (guests/agent/share.c).

`share_argv` says what to run; run as a module this file does so where it is called, which is in the
mount namespace of a captured folder: it starts virtiofsd, once for the root and once for the
folder, and becomes QEMU.  All of them end with their namespace of processes, by SIGKILL, at once.

virtiofsd is that of QEMU up to 7.2 (tools/virtiofsd, Debian 12): its `source` must be absolute,
since it changes to the root before it opens it.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from powercut.machine.guest.image import ensure_guest_image
from powercut.machine.guest.initramfs import build_initramfs, regular
from powercut.machine.port import GuestImage, guest_words
from powercut.machine.qemu.accelerator import best_accelerator
from powercut.machine.qemu.build import find_qemu
from powercut.model.errors import HostError, UsageError
from powercut.model.machine import Accelerator, Bus
from powercut.model.machine_identity import MachineIdentity

VIRTIOFSD: Final = Path("/usr/lib/qemu/virtiofsd")
_MEMORY_MIB: Final = 384
_MSIZE: Final = 131072
_SETTINGS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    # The default first: virtiofsd's own, and Linux's for 9p.
    "virtiofs": {"cache": ("auto", "none", "always"), "writeback": ("off", "on")},
    "9p": {
        "cache": ("none", "loose", "mmap"),
        "security_model": ("none", "passthrough", "mapped-file"),
        "writeout": ("off", "immediate"),
    },
}
_DENIED: Final = ("obsolete", "elevateprivileges", "spawn", "resourcecontrol")
# include/uapi/linux/mount.h, sched.h, fcntl.h; the call has one number on every architecture.
_MOUNT_SETATTR: Final = 442
_MOUNT_ATTR_RDONLY: Final = 1
_MS_PRIVATE: Final = 1 << 18
_AT_RECURSIVE: Final = 0x8000
_AT_FDCWD: Final = -100
_CLONE_NEWNS: Final = 0x20000
_ROOT: Final = "root"
_FLAVOURS: Final = {"virtiofs": "cloud", "9p": "full"}
"""Guest kernels that have it: Debian's `cloud` has no 9P."""


@dataclass(frozen=True)
class FolderShare:
    """How the folder gets into the guest: `kind` is virtiofs or 9p."""

    kind: str
    settings: Mapping[str, str]

    @staticmethod
    def parse(text: str) -> FolderShare:
        """Of `KIND[,NAME=VALUE]...`; the defaults are those of the product.  Raises UsageError."""
        kind, *rest = text.split(",")
        known = _SETTINGS.get(kind)
        if known is None:
            raise UsageError(f"'{kind}' is no share: there are {' and '.join(_SETTINGS)}")
        settings = {name: values[0] for name, values in known.items()}
        for part in rest:
            name, _, value = part.partition("=")
            if value not in known.get(name, ()):
                offered = "; ".join(f"{key}={'|'.join(of)}" for key, of in known.items())
                raise UsageError(f"'{part}' is no setting of {kind}", hint=f"it has {offered}")
            settings[name] = value
        return FolderShare(kind, settings)

    def __str__(self) -> str:
        return ",".join([self.kind, *(f"{name}={value}" for name, value in self.settings.items())])


def share_argv(
    share: FolderShare, folder: Path, command: Sequence[str], machine: MachineIdentity
) -> list[str]:
    """The command that runs `command` in a guest, which is that `machine`; `folder` is absolute.

    Raises HostError.
    """
    if share.kind == "virtiofs" and not VIRTIOFSD.exists():
        raise HostError(f"no {VIRTIOFSD}", hint="it is in Debian 12's qemu-system-common")
    image = ensure_guest_image(_FLAVOURS[share.kind])
    orders = {
        "qemu": qemu_argv(share, folder, image, best_accelerator()[0], find_qemu()),
        "servers": _servers(share, folder) if share.kind == "virtiofs" else {},
        "initramfs": str(image.initramfs),
        "words": _words(share, folder, command, machine),
    }
    return [sys.executable, "-m", __name__, json.dumps(orders)]


def _words(
    share: FolderShare, folder: Path, command: Sequence[str], machine: MachineIdentity
) -> list[str]:
    root = options = ""
    if share.kind == "9p":
        common = f"trans=virtio,version=9p2000.L,msize={_MSIZE}"
        root = f"{common},cache=loose"
        options = f"{common},cache={share.settings['cache']}"
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": "/var/tmp",
        "TMPDIR": "/var/tmp",
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        "POWERCUT_FD": "3",
    }
    variables = [f"{name}={value}" for name, value in environment.items()]
    words = ["/usr/bin/env", *command]  # it looks for the command in PATH
    begin = [share.kind, root, options, str(folder), str(Path.cwd())]
    begin += [machine.mac, machine.machine_id, str(len(variables))]
    return [*begin, *variables, *words]


def qemu_argv(
    share: FolderShare, folder: Path, image: GuestImage, accelerator: Accelerator, qemu: Path
) -> list[str]:
    """QEMU's command line, but for `-initrd` and the chardevs that `_become` opens."""
    emulated = accelerator is Accelerator.TCG
    return [
        str(qemu),
        *("-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"),
        *("-sandbox", ",".join(["on", *(f"{what}=deny" for what in _DENIED)])),
        *("-M", "pc,memory-backend=ram", "-m", f"{_MEMORY_MIB}M"),
        *("-object", f"memory-backend-memfd,id=ram,size={_MEMORY_MIB}M,share=on"),
        *("-accel", "tcg,thread=multi" if emulated else "kvm"),
        *("-cpu", "max" if emulated else "host", "-smp", "1"),
        *("-kernel", str(image.kernel)),
        *("-append", guest_words(Bus.VIRTIO_BLK, emulated=emulated)),
        *("-chardev", "file,id=console,append=on,path=/proc/self/fd/1"),
        *("-device", "isa-serial,chardev=console", "-device", "virtio-serial-pci"),
        *("-chardev", "file,id=output,append=on,path=/proc/self/fd/2"),
        *("-device", "virtserialport,chardev=output,name=output"),
        *("-device", "virtconsole,chardev=lines"),
        *_devices(share, folder),
    ]


def _devices(share: FolderShare, folder: Path) -> list[str]:
    if share.kind == "virtiofs":
        devices = [f"vhost-user-fs-pci,chardev={name},tag={name}" for name in (_ROOT, "folder")]
        return [word for device in devices for word in ("-device", device)]
    settings = f"security_model={share.settings['security_model']}"
    if share.settings["writeout"] != "off":
        settings += f",writeout={share.settings['writeout']}"
    root = "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap"
    return [
        *("-fsdev", root, "-device", "virtio-9p-pci,fsdev=root,mount_tag=root"),
        *("-fsdev", f"local,id=folder,path={str(folder).replace(',', ',,')},{settings}"),
        *("-device", "virtio-9p-pci,fsdev=folder,mount_tag=folder"),
    ]


def _servers(share: FolderShare, folder: Path) -> dict[str, list[str]]:
    writeback = "writeback" if share.settings["writeback"] == "on" else "no_writeback"
    source = str(folder).replace("\\", "\\\\").replace(",", "\\,")
    served = f"source={source},cache={share.settings['cache']},{writeback}"
    common = "sandbox=chroot,log_level=err"
    return {
        tag: [str(VIRTIOFSD), "-f", "-o", f"{options},{common}"]
        for tag, options in ((_ROOT, "source=/,cache=always"), ("folder", served))
    }


def _become(orders: Mapping[str, Any]) -> None:
    """Starts the servers and becomes QEMU.  It never returns."""
    argv = list(orders["qemu"])
    for tag, server in orders["servers"].items():
        argv += ["-chardev", f"socket,id={tag},fd={_connected(server, read_only=tag == _ROOT)}"]
    # The kernel reads archives that lie one behind the other.
    words = "".join(f"{word}\0" for word in orders["words"]).encode(errors="surrogateescape")
    initramfs = os.memfd_create("initramfs", 0)  # QEMU inherits it
    with os.fdopen(os.dup(initramfs), "wb") as file:
        file.write(Path(orders["initramfs"]).read_bytes())
        file.write(bytes(-file.tell() % 4) + build_initramfs([regular("share", words)]))
    argv += ["-initrd", f"/proc/self/fd/{initramfs}"]
    lines = os.environ["POWERCUT_FD"]
    argv += ["-chardev", f"file,id=lines,append=on,path=/proc/self/fd/{lines}"]
    os.execv(argv[0], argv)


def _connected(server: Sequence[str], *, read_only: bool) -> int:
    """Starts a server; the descriptor of the one connection to it, which QEMU inherits.

    The server gets a listening socket in which that connection waits already.  Its name was in a
    folder of ours alone and is gone before the server starts, so that it serves no other process.
    """
    with (
        tempfile.TemporaryDirectory(prefix="powercut-share-") as private,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        path = f"{private}/socket"
        listener.bind(path)
        listener.listen(1)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        Path(path).unlink()
        fd = listener.fileno()
        subprocess.Popen(
            [*server, f"--fd={fd}"],
            stdin=subprocess.DEVNULL,
            pass_fds=[fd],
            preexec_fn=_make_read_only if read_only else None,  # noqa: PLW1509  # no threads here
        )
    connection.set_inheritable(True)
    return connection.detach()


def _make_read_only() -> None:
    """Makes all mounts read-only, in a mount namespace of this process alone.

    virtiofsd of QEMU 7.2 knows no read-only share, and the guest's own mount option binds none who
    is root there.  Raises OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = (ctypes.c_uint64 * 4)(_MOUNT_ATTR_RDONLY, 0, _MS_PRIVATE, 0)
    done = libc.unshare(_CLONE_NEWNS) or libc.syscall(
        _MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, ctypes.byref(attributes), 32
    )
    if done:
        number = ctypes.get_errno()
        raise OSError(number, f"a read-only root: {os.strerror(number)}")


if __name__ == "__main__":
    _become(json.loads(sys.argv[1]))
