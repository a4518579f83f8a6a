# SPDX-License-Identifier: Apache-2.0
"""What tests need of the host that no package brings: each a marker, and one row of a table.

A test says what it needs, `@pytest.mark.fuse`; tests/conftest.py skips it where this host has
none, and the end of a run names each need that was played or missing.  A package that is missing
is no such need: `./powercut test` installs it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import platform
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import memory_groups
import ordinary_user
import pytest

_LOOP_CTL_GET_FREE = 0x4C82  # linux/loop.h
_TRY_S = 60


def _said(*argv: str) -> str:
    """Why a command fails here; empty if it does not."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_TRY_S)
    return (done.stderr.strip() or f"status {done.returncode}") if done.returncode else ""


def _no_root() -> str:
    return "the tests run as an ordinary user" if os.geteuid() else ""


def _no_mounts() -> str:
    script = "mount -t tmpfs none /tmp"
    return _no_root() or _said("unshare", "--mount", "sh", "-c", script)


def _no_namespaces() -> str:
    own = ["--map-root-user"] if os.geteuid() else []
    return _said("unshare", "--mount", "--pid", "--fork", "--kill-child", *own, "true")


def _no_userns() -> str:
    return _said("unshare", "--user", "--map-root-user", "--mount", "true")


def _no_loop() -> str:
    if why := _no_root():
        return why
    try:
        with Path("/dev/loop-control").open() as control:
            fcntl.ioctl(control, _LOOP_CTL_GET_FREE)
    except OSError as error:
        return f"/dev/loop-control: {error.strerror}"
    return ""


def _no_fuse() -> str:
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"/dev/fuse: {error.strerror}"
    return _no_userns() if os.geteuid() else ""


def _opened() -> str:
    if _no_mounts() or ordinary_user.closed_itself():
        return ""
    return "a mount namespace that opens what is above the checkout"


def _no_amx() -> str:
    with contextlib.suppress(OSError):
        if "amx_tile" in Path("/proc/cpuinfo").read_text():
            return ""
    return "this processor has no AMX"


def _no_32_bits() -> str:
    """An i386 program that calls exit(0): ELF header, one segment, seven bytes of code."""
    code = bytes.fromhex("31db31c040cd80")
    elf = b"\x7fELF\1\1\1".ljust(16, b"\0") + bytes.fromhex(
        "020003000100000054800408340000000000000000000000340020000100000000000000"
    )
    segment = bytes.fromhex("010000000000000000800408008004085b0000005b000000")
    program = elf + segment + bytes.fromhex("0500000000100000") + code
    file = os.memfd_create("i386")
    os.write(file, program)
    run = f"import os; os.execv('/proc/{os.getpid()}/fd/{file}', ['i386'])"
    try:
        return "" if not _said(sys.executable, "-c", run) else "no 32-bit program runs here"
    finally:
        os.close(file)


def _no_personality() -> str:
    return _said("setarch", "--addr-no-randomize", "true")


def _no_process_limit() -> str:
    release = tuple(int(part) for part in platform.release().split(".")[:2])
    has = os.geteuid() == 0 and release >= (6, 14)
    return "" if has else "users have RLIMIT_NPROC; root has no limit before Linux 6.14"


def _no_ipv6() -> str:
    return "" if socket.has_ipv6 else "this Python has no IPv6"


def _no_tool(*names: str) -> str:
    lost = [name for name in names if shutil.which(name) is None]
    return f"no {', '.join(lost)}" if lost else ""


def _nothing() -> str:
    return ""


@dataclass(frozen=True)
class Need:
    """Why this host has none, and what stands for it there; either may be empty."""

    what: str
    absent: Callable[[], str]
    played: Callable[[], str] = _nothing

    def __post_init__(self) -> None:
        for name in ("absent", "played"):  # asked once a process
            object.__setattr__(self, name, functools.cache(getattr(self, name)))


NEEDS: dict[str, Need] = {
    "root": Need("root, who becomes other users", _no_root),
    "mounts": Need("root, who mounts file systems in a namespace of its own", _no_mounts),
    "userns": Need("user namespaces", _no_userns),
    "namespaces": Need("mount and pid namespaces", _no_namespaces),
    "loop": Need("root and loop devices", _no_loop),
    "fuse": Need("FUSE, for this user", _no_fuse),
    "public_checkout": Need(
        "a checkout that all users may read", ordinary_user.closed_to_others, _opened
    ),
    "memory_group": Need("a control group that limits memory", memory_groups.absent),
    "amx": Need(
        "a processor with AMX",
        _no_amx,
        lambda: "a library that refuses what such a processor does (support/processors.py)",
    ),
    "bits32": Need("a kernel that runs 32-bit programs", _no_32_bits),
    "personality": Need("personality(2), which some containers forbid", _no_personality),
    "process_limit": Need("root's processes counted by the pid namespace", _no_process_limit),
    "ipv6": Need("IPv6", _no_ipv6),
    **{
        name: Need(
            f"{name}, which powercut itself does not need", functools.partial(_no_tool, *tools)
        )
        for name, tools in {
            "go": ("go",),
            "node": ("node",),
            "rust": ("cargo",),
            "java": ("java", "javac"),
        }.items()
    },
}


LACKS = "this host has no "
"""How the reason of a skip begins, where a need is absent."""


def provide(item: pytest.Item) -> None:
    """Skips a test that needs what this host has not; notes the doubles that one uses."""
    for name in (marker.name for marker in item.iter_markers() if marker.name in NEEDS):
        require(name)
        if NEEDS[name].absent():
            item.user_properties.append((name, NEEDS[name].played()))


def require(name: str) -> None:
    """The same for a fixture."""
    need = NEEDS[name]
    if (why := need.absent()) and not need.played():
        pytest.skip(f"{LACKS}{name}: {why}")


def summary(reports: Iterable[pytest.TestReport]) -> list[str]:
    """One line a need that this host did not meet by itself, with how many tests it concerns."""
    counted: Counter[str] = Counter()
    for report in reports:
        if report.skipped and isinstance(report.longrepr, tuple):
            reason = report.longrepr[2].removeprefix("Skipped: ")
            counted.update([f"skipped: {reason}"] if reason.startswith(LACKS) else [])
        elif report.when == "call":
            counted.update(
                f"{name} was simulated by {double}"
                for name, double in report.user_properties
                if name in NEEDS
            )
    return [f"{count} tests: {line}" for line, count in sorted(counted.items())]
