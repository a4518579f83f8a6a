# SPDX-License-Identifier: Apache-2.0
"""Which accelerator this host really has.

A /dev/kvm that opens proves nothing: there are hosts where guests then hang in the
firmware for ever, or QEMU aborts.  So KVM counts only if a probe guest (our own guest
image) has booted with it and said hello.  The outcome is kept in the cache until the
host reboots or QEMU, the host's kernel or the guest image change.
"""

from __future__ import annotations

import json
import os
import platform
import selectors
import socket
import struct
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from powercut.machine.guest.image import ensure_guest_image
from powercut.machine.guest_image import GuestImage
from powercut.machine.process import spawn
from powercut.machine.qemu.build import PROGRAM as QEMU
from powercut.machine.qemu.build import version_line
from powercut.model.errors import HostError
from powercut.model.machine import Accelerator
from powercut.paths import CACHE

PROBE_TIMEOUT_S: Final = 10.0
"""A probe guest needs 0.5 s with KVM; where KVM does not work, many never answer."""

TCG_TIMEOUT_S: Final = 60.0
"""1 to 3 s with TCG; TCG does not hang, so only a very busy host gets there."""

_KVM: Final = Path("/dev/kvm")
_KILL_TIMEOUT_S: Final = 5.0
# struct pc_message of workloads/common/wire.h: magic, type, stream, length, crc, lsn,
# guest_ns, value.  The channel proper is a sibling, which this layer does not import.
_HEADER: Final = struct.Struct("<IHHIIQQQ")
_MAGIC: Final = 0x31574350
_HELLO: Final = 1
_APPEND: Final = "quiet loglevel=0 panic=-1 cryptomgr.notests 8250.nr_uarts=0"


@dataclass(frozen=True)
class Proof:
    """What a probe guest showed: whether it booted, what happened, and how long it took.

    `remedy` is what might help if it did not.
    """

    ok: bool
    detail: str
    boot_s: float
    remedy: str = ""


def probe_argv(accelerator: Accelerator, image: GuestImage, channel_fd: int) -> list[str]:
    """The command line of a probe guest that talks on the connected socket `channel_fd`."""
    kvm = accelerator is Accelerator.KVM
    return [
        QEMU,
        *("-nodefaults", "-no-user-config", "-no-reboot"),
        *("-display", "none"),
        *("-M", "pc"),
        *("-accel", "kvm" if kvm else "tcg,thread=multi"),
        *("-cpu", "host" if kvm else "max"),  # as the machines that it stands for
        *("-smp", "1"),
        *("-m", "128"),
        *("-kernel", str(image.kernel)),
        *("-initrd", str(image.initramfs)),
        *("-append", _APPEND if kvm else f"{_APPEND} acpi=off no_timer_check"),
        *("-device", "virtio-serial-pci"),
        *("-chardev", f"socket,id=ctl,fd={channel_fd}"),
        *("-device", "virtserialport,chardev=ctl,name=ctl"),
    ]


def prove(
    accelerator: Accelerator, image: GuestImage, *, timeout_s: float = PROBE_TIMEOUT_S
) -> Proof:
    """Boots a probe guest and waits for its hello; the guest is gone when this returns."""
    ours, theirs = socket.socketpair()
    start = time.monotonic()
    with ours, theirs, tempfile.TemporaryFile() as output:  # no name that a kill would leave
        argv = probe_argv(accelerator, image, theirs.fileno())
        try:
            log = Path(f"/proc/self/fd/{output.fileno()}")
            qemu = spawn(argv, log, pass_fds=(theirs.fileno(),))
        except HostError as error:
            return Proof(False, str(error), 0.0, error.hint)
        theirs.close()  # so that the end of QEMU is the end of the stream
        try:
            said = _wait_hello(ours, start + timeout_s)
        finally:
            elapsed = time.monotonic() - start
            qemu.kill()
            with suppress(subprocess.TimeoutExpired):  # stuck in the kernel: not ours to mend
                qemu.wait(timeout=_KILL_TIMEOUT_S)
        if said == "hello":
            return Proof(True, f"a probe guest said hello after {elapsed:.2f} s", elapsed)
        if said == "silence":
            return Proof(False, f"a probe guest said nothing within {timeout_s:.0f} s", elapsed)
        output.seek(0)
        message = output.read().decode(errors="replace").strip().splitlines()
        reason = message[-1] if message else f"exit status {qemu.returncode}"
        return Proof(False, f"the probe guest's QEMU gave up: {reason}", elapsed)


def _wait_hello(channel: socket.socket, deadline: float) -> str:
    """`hello`, `silence` (nothing until the deadline) or `end` (QEMU is gone)."""
    received = b""
    with selectors.DefaultSelector() as selector:
        selector.register(channel, selectors.EVENT_READ)
        while selector.select(max(0.0, deadline - time.monotonic())):
            try:
                part = channel.recv(65536)
            except ConnectionError:
                return "end"
            if not part:
                return "end"
            received += part
            if len(received) >= _HEADER.size:
                magic, kind, _, length, *_ = _HEADER.unpack_from(received)
                if (magic, kind) != (_MAGIC, _HELLO):
                    return "end"
                if len(received) >= _HEADER.size + length:
                    return "hello"
    return "silence"


def qemu_version(*, timeout_s: float = 20.0) -> str:
    """The first line of the host's `--version`.  Raises HostError if QEMU is missing or broken."""
    return version_line(timeout_s=timeout_s)


def kvm_obstacle() -> Proof | None:
    """Why KVM cannot even be tried; None if it can.  Opens nothing."""
    if not _KVM.exists():
        flags = Path("/proc/cpuinfo").read_text().split()
        if "vmx" not in flags and "svm" not in flags:
            return Proof(
                False,
                "no /dev/kvm, and the processor offers no virtualisation",
                0.0,
                "in a VM: switch on nested virtualisation; else in the firmware's setup",
            )
        remedy = "modprobe kvm_intel or kvm_amd; in a container: --device /dev/kvm"
        return Proof(False, "no /dev/kvm, although the processor could", 0.0, remedy)
    if not os.access(_KVM, os.R_OK | os.W_OK):
        return Proof(
            False,
            "this user may not open /dev/kvm",
            0.0,
            "usermod -aG kvm USER (as root), then log in again",
        )
    return None


def accelerator_proof(
    accelerator: Accelerator, *, fresh: bool = False, timeout_s: float | None = None
) -> Proof:
    """Whether `accelerator` works here, from the cache unless `fresh`.

    That TCG gave no answer in `timeout_s` says that the host is busy, and is not kept.
    Builds the guest image if there is none; raises what that raises.
    """
    obstacle = kvm_obstacle() if accelerator is Accelerator.KVM else None
    if obstacle is not None:
        return obstacle
    image = ensure_guest_image()
    key = {
        "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "kernel": platform.release(),
        "qemu": qemu_version(),
        "guest": image.digest,
    }
    cache = CACHE / f"accelerator-{accelerator.value}.json"
    if not fresh:
        with suppress(OSError, ValueError, KeyError, TypeError):
            cached = json.loads(cache.read_text())
            if cached["key"] == key:
                return Proof(**cached["proof"])
    tcg = accelerator is Accelerator.TCG
    limit_s = timeout_s or (TCG_TIMEOUT_S if tcg else PROBE_TIMEOUT_S)
    proof = prove(accelerator, image, timeout_s=limit_s)
    if tcg and not proof.ok:
        return proof
    cache.parent.mkdir(parents=True, exist_ok=True)
    temporary = cache.with_name(f".{cache.name}.{os.getpid()}")
    temporary.write_text(json.dumps({"key": key, "proof": asdict(proof)}, indent=1) + "\n")
    temporary.replace(cache)
    return proof


def best_accelerator(*, fresh: bool = False) -> tuple[Accelerator, str]:
    """The fastest accelerator that works here, and why it is that one."""
    proof = accelerator_proof(Accelerator.KVM, fresh=fresh)
    if proof.ok:
        return Accelerator.KVM, f"KVM: {proof.detail}"
    return Accelerator.TCG, f"TCG, since KVM does not work here: {proof.detail}"
