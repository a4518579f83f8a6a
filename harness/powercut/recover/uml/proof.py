# SPDX-License-Identifier: Apache-2.0
"""Whether User-Mode Linux works here, proved by booting it.

A `linux.uml` that is installed proves nothing: on some processors it panics at its first
program, in some sandboxes it may not trace one.  So a kernel is booted and PID 1 runs the
log reader once.  The outcome is kept in the cache until the host reboots, or a program that
takes part changes.  A kernel that says nothing in time may be slow only: that is kept for an hour,
so that no start pays for it again, or until somebody gives it longer.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from powercut.model.errors import HostError
from powercut.paths import CACHE, WAL_BINARY
from powercut.recover.plan import RecoveryPlan
from powercut.recover.uml import boot as uml_boot
from powercut.recover.uml.engine import UmlEngine
from powercut.recover.uml.kernel import UmlKernel, host_kernel

PROOF_TIMEOUT_S: Final = 60.0
"""Of a quiet host.  A boot takes 1 to 3 s; only a hung kernel or a very slow host gets there."""

_SILENCE_S: Final = 3600.0

_SIZE: Final = 1 << 20
_READER: Final = (
    *("/bin/wal", "read", f"run_id={'0' * 32}"),
    *("layout=raw", "path=/dev/dm-0", "record=512", "align=512"),
)
_INSTALL: Final = (
    "apt-get install user-mode-linux; on Ubuntu debian-archive-keyring, and Debian's is fetched"
)
_NEWER: Final = "a newer user-mode-linux, or a host that lets one program trace another"
_LONGER: Final = "if it is only slow: powercut doctor --patience SECONDS"

_known: dict[str, UmlProof] = {}


@dataclass(frozen=True)
class UmlProof:
    """What a probe kernel showed: whether it worked, and in one line what happened.

    `seconds` is how long it took, `remedy` what might help if it did not work; `silent` says that
    its time was up, and nothing else was wrong.
    """

    ok: bool
    detail: str
    seconds: float
    remedy: str = ""
    silent: bool = False


def uml_proof(
    kernel: UmlKernel | None = None, *, fresh: bool = False, timeout_s: float = PROOF_TIMEOUT_S
) -> UmlProof:
    """Whether the `uml` engine works on this host, from the cache unless `fresh`.

    With the host's kernel if none is given.  Takes 1 to 3 s when it is not known yet.  One that
    once stayed silent for less than `timeout_s` gets that long.
    """
    kernel = kernel or host_kernel()
    reasons = uml_boot.unavailable(kernel)
    if reasons:
        absent = not kernel.program.exists()
        remedy = _INSTALL if absent else "what each reason names; then powercut doctor --fresh"
        return UmlProof(False, "; ".join(reasons), 0.0, remedy)
    key = _key(kernel)
    if not fresh:
        found = _known.get(key) or _read(kernel, key)
        if found is not None and not (found.silent and timeout_s > found.seconds):
            _known[key] = found
            return found
    proof = _known[key] = _prove(kernel, timeout_s)
    _write(kernel, key, proof)
    return proof


def _key(kernel: UmlKernel) -> str:
    parts = [
        Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        platform.release(),
    ]
    programs = (
        kernel.program,
        uml_boot.init_binary(),
        uml_boot.guard_binary(),
        uml_boot.xstate_library(),
        WAL_BINARY,
    )
    for program in programs:
        status = program.stat()
        parts += [str(program.resolve()), str(status.st_size), str(status.st_mtime_ns)]
    return "\n".join(parts)


def _prove(kernel: UmlKernel, timeout_s: float) -> UmlProof:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="powercut-") as folder:
        base = Path(folder) / "base"
        with base.open("xb") as file:
            file.truncate(_SIZE)
        engine = UmlEngine(base, RecoveryPlan.of("", "", "", _READER), kernel=kernel)
        try:
            with engine:
                engine.start(timeout_s=timeout_s)
                seen = engine.recover((), timeout_s=timeout_s)
                works = seen.recovered and seen.complete
                failure = "" if works else seen.failure or "the log reader did not finish"
        except HostError as error:
            failure = str(error)
    seconds = time.monotonic() - start
    if failure:
        remedy = _LONGER if engine.hung else _NEWER
        return UmlProof(False, one_line(failure), seconds, remedy, silent=engine.hung)
    return UmlProof(True, f"a probe kernel ran a program after {seconds:.2f} s", seconds)


def one_line(failure: str) -> str:
    """Of what a kernel has said before its end, the line that tells most."""
    lines = [line.strip() for line in failure.splitlines() if line.strip()]
    for sign in ("failed, errno", "Kernel panic", "panic"):
        for line in lines:
            if sign in line:
                return line
    return lines[0] if lines else "the kernel ended without a word"


def _cached(kernel: UmlKernel) -> Path:
    return CACHE / f"uml-{kernel.name}.json"


def _read(kernel: UmlKernel, key: str) -> UmlProof | None:
    with suppress(OSError, ValueError, KeyError, TypeError):
        kept = json.loads(_cached(kernel).read_text())
        if kept["key"] == key and (kept["until"] is None or time.time() < kept["until"]):
            return UmlProof(**kept["proof"])
    return None


def _write(kernel: UmlKernel, key: str, proof: UmlProof) -> None:
    """Keeps it for other processes, where the cache can be written."""
    cached = _cached(kernel)
    until = time.time() + _SILENCE_S if proof.silent else None
    kept = {"key": key, "until": until, "proof": asdict(proof)}
    with suppress(OSError):
        cached.parent.mkdir(parents=True, exist_ok=True)
        temporary = cached.with_name(f".{cached.name}.{os.getpid()}")
        temporary.write_text(json.dumps(kept, indent=1) + "\n")
        temporary.replace(cached)
