# SPDX-License-Identifier: Apache-2.0
"""Which accelerator this host really has.

A /dev/kvm that opens proves nothing: there are hosts where guests then hang in the
firmware for ever, or QEMU aborts.  So KVM counts only if a probe guest (our own guest
image) has booted with it and said hello.  The outcome is kept in the cache until the
host reboots or QEMU, the host's kernel or the guest image change.

A probe guest that says nothing is slow or will never speak, and only time tells which:

1. The deadline is that of a quiet host times its load (powercut.machine.patience).
2. A KVM guest that stays silent gets as long as a TCG guest takes here, if that is longer: a
   nested host may need 12 s with KVM and 124 s without.  KVM that is slower than TCG is of no use.
3. Silence on a busy host is kept for an hour only; on a quiet one until the host reboots.
4. Who knows better says so: `machine.accelerator: kvm`, and `powercut doctor --patience SECONDS`.
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
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from powercut.machine.guest.image import ensure_guest_image
from powercut.machine.patience import patience
from powercut.machine.port import GuestImage
from powercut.machine.process import spawn
from powercut.machine.qemu.build import PROGRAM as QEMU
from powercut.machine.qemu.build import version_line
from powercut.machine.qemu.host_view import KVM
from powercut.model.errors import HostError
from powercut.model.machine import Accelerator
from powercut.paths import CACHE
from powercut.sandbox.printed import catch_up
from powercut.sandbox.users import HostView
from powercut.scenario.settings import AcceleratorChoice

PROBE_TIMEOUT_S: Final = 10.0
"""A probe guest needs 0.5 s with KVM; where KVM does not work, many never answer."""

ASKED_TIMEOUT_S: Final = 120.0
"""For KVM if a scenario asks for it by name: it is tried hard before the scenario is refused."""

TCG_TIMEOUT_S: Final = 60.0
"""1 to 3 s with TCG; TCG does not hang, so only a very busy host gets there."""

_SILENCE_S: Final = 3600.0
"""How long it is believed that a guest said nothing on a host that had much else to do."""

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

    `remedy` is what might help if it did not; `silent` says that its time was up, and nothing else
    was wrong.
    """

    ok: bool
    detail: str
    boot_s: float
    remedy: str = ""
    silent: bool = False


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
            view = HostView(
                (),
                (image.kernel, image.initramfs),
                device=KVM if accelerator is Accelerator.KVM else None,
            )
            qemu = spawn(argv, log, pass_fds=(theirs.fileno(),), view=view)
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
            detail = f"a probe guest said nothing within {timeout_s:.0f} s"
            return Proof(False, detail, elapsed, silent=True)
        catch_up(log)
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

    With `timeout_s` a guest that once stayed silent is given that long.  Builds the guest image if
    there is none; raises what that raises.
    """
    obstacle = kvm_obstacle() if accelerator is Accelerator.KVM else None
    if obstacle is not None:
        return obstacle
    image = ensure_guest_image()
    cache = _Cache(accelerator, image)
    kept = None if fresh else cache.read()
    if kept is not None and not (kept.silent and timeout_s and timeout_s > kept.boot_s):
        return kept
    slower = patience()
    proof = _tried(accelerator, image, timeout_s, slower)
    # That TCG stayed silent says that this host is busy, and nothing of TCG.
    if not (proof.silent and accelerator is Accelerator.TCG):
        busy = max(slower, patience()) > 1
        cache.write(proof, _SILENCE_S if proof.silent and busy else None)
    return proof


def _tried(
    accelerator: Accelerator, image: GuestImage, timeout_s: float | None, slower: float
) -> Proof:
    """Boots the probe guest, for KVM once more if TCG shows that all is slow here."""
    if accelerator is Accelerator.TCG:
        return prove(accelerator, image, timeout_s=timeout_s or TCG_TIMEOUT_S * slower)
    limit_s = timeout_s or PROBE_TIMEOUT_S * slower
    proof = prove(accelerator, image, timeout_s=limit_s)
    if proof.silent and timeout_s is None:
        longest_s = max(TCG_TIMEOUT_S * slower, ASKED_TIMEOUT_S)
        emulated = accelerator_proof(Accelerator.TCG, timeout_s=longest_s)
        slow_s = emulated.boot_s if emulated.ok else longest_s
        if slow_s > limit_s:
            return prove(accelerator, image, timeout_s=slow_s)
    return proof


class _Cache:
    """The proof that is kept of an accelerator, and for which host, QEMU and guest it holds."""

    def __init__(self, accelerator: Accelerator, image: GuestImage) -> None:
        self._file = CACHE / f"accelerator-{accelerator.value}.json"
        self._key = {
            "boot": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            "kernel": platform.release(),
            "qemu": qemu_version(),
            "guest": image.digest,
        }

    def read(self) -> Proof | None:
        with suppress(OSError, ValueError, KeyError, TypeError):
            cached = json.loads(self._file.read_text())
            until = cached["until"]
            if cached["key"] == self._key and (until is None or time.time() < until):
                return Proof(**cached["proof"])
        return None

    def write(self, proof: Proof, seconds: float | None) -> None:
        """Keeps `proof` for `seconds`; None: until something of the key changes."""
        until = None if seconds is None else time.time() + seconds
        text = json.dumps({"key": self._key, "until": until, "proof": asdict(proof)}, indent=1)
        self._file.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        temporary.write_text(text + "\n")
        temporary.replace(self._file)


def best_accelerator(*, fresh: bool = False) -> tuple[Accelerator, str]:
    """The fastest accelerator that works here, and why it is that one."""
    proof = accelerator_proof(Accelerator.KVM, fresh=fresh)
    if proof.ok:
        return Accelerator.KVM, f"KVM: {proof.detail}"
    return Accelerator.TCG, f"TCG, since KVM does not work here: {proof.detail}"


class Accelerators:
    """What runs the guests of this host; each is found out when a machine first wants it."""

    def __init__(self) -> None:
        self._found: dict[AcceleratorChoice, tuple[Accelerator, str]] = {}

    def of(self, choice: AcceleratorChoice) -> Accelerator:
        """What `machine.accelerator` comes to here.  Raises HostError if that does not work."""
        return self._look_up(choice)[0]

    def emulate(self, choice: AcceleratorChoice) -> bool:
        """Whether guests of that choice run in emulation.  Raises HostError."""
        return self.of(choice) is not Accelerator.KVM

    def facts(self, choices: Iterable[AcceleratorChoice]) -> dict[str, str]:
        """For readers of results: what runs the guests of all these choices, and why."""
        found = dict.fromkeys(self._look_up(choice) for choice in choices)
        names = dict.fromkeys(accelerator.value for accelerator, _ in found)
        return {"name": ", ".join(names), "reason": "; ".join(reason for _, reason in found)}

    def _look_up(self, choice: AcceleratorChoice) -> tuple[Accelerator, str]:
        if choice not in self._found:
            self._found[choice] = _find(choice)
        return self._found[choice]


def _find(choice: AcceleratorChoice) -> tuple[Accelerator, str]:
    match choice:
        case AcceleratorChoice.AUTO:
            return best_accelerator()
        case AcceleratorChoice.TCG:
            return Accelerator.TCG, "TCG, as machine.accelerator says"
    proof = accelerator_proof(Accelerator.KVM, timeout_s=ASKED_TIMEOUT_S * patience())
    if not proof.ok:
        raise HostError(
            f"machine.accelerator is kvm, and KVM does not work here: {proof.detail}",
            hint=proof.remedy or "machine.accelerator: auto takes what works",
        )
    return Accelerator.KVM, f"KVM, as machine.accelerator says: {proof.detail}"
