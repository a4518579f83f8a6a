# SPDX-License-Identifier: Apache-2.0
"""What this host can do, why not more, and what would mend it.

Each probe tries the thing itself where that is possible: an accelerator counts when a
guest has booted with it, the capture disk when nbdkit has loaded it.  Tests that need
something ask `requirement` and quote its answer when they skip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from powercut.disk.root_cache import cached_roots, packages_size
from powercut.machine.fuse import alone_argv
from powercut.machine.guest.image import current_guest_image
from powercut.machine.patience import patience, processor_quota
from powercut.machine.qemu.accelerator import accelerator_proof, qemu_version
from powercut.model.errors import HostError, PowercutError
from powercut.model.extras import loaded, registered
from powercut.model.machine import Accelerator
from powercut.model.units import count
from powercut.paths import BUILD, CACHE, CAPTURE_PLUGIN, REBUILD, RESULTS, command
from powercut.recover.uml.proof import PROOF_TIMEOUT_S, uml_proof
from powercut.rig import loop_guest
from powercut.rig.folder import try_folder
from powercut.sandbox.confined import REMEDY as SANDBOX_REMEDY
from powercut.sandbox.confined import try_sandboxes

_TIMEOUT_S: Final = 20.0
_MIB: Final = 1 << 20
_GIB: Final = 1 << 30
_SPACE_NEEDED: Final = 2 * _GIB  # guest image, cache, and the recordings of a few runs
_MEMORY_NEEDED: Final = _GIB // 2  # one guest, its disk, and what judges them
_ROOT_TOOLS: Final = ":/usr/sbin:/sbin"
_EXTRAS: Final = "powercut.doctor"


@dataclass(frozen=True)
class Probe:
    """One answer.

    `found` is what is there; `limit` why it is not more (empty if nothing is missing);
    `remedy` what to do about that.  Without a `needed` one no scenario runs; without
    another one something named in `limit` is slower or not on offer.
    """

    name: str
    ok: bool
    found: str
    limit: str = ""
    remedy: str = ""
    needed: bool = False


class _Absent(Exception):
    """A tool is not there or does not work; the text says which and how."""


def _said(*argv: str) -> str:
    environment = dict(os.environ, LC_ALL="C", PATH=os.environ.get("PATH", "") + _ROOT_TOOLS)
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT_S,
            env=environment,
        )
    except FileNotFoundError:
        raise _Absent(f"no {argv[0]}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _Absent(f"{argv[0]} does not work: {error}") from None
    if done.returncode != 0:
        end = done.stdout.strip().splitlines()[-1:] or ["it said nothing"]
        raise _Absent(f"{argv[0]} fails with status {done.returncode}: {end[0]}")
    return done.stdout.strip()


def _tool(name: str, package: str, *argv: str, needed: bool, limit: str = "") -> Probe:
    try:
        lines = _said(*argv).splitlines()
    except _Absent as absent:
        why = f"{absent}{': ' + limit if limit else ''}"
        return Probe(name, False, "nothing usable", why, f"apt-get install {package}", needed)
    return Probe(name, True, lines[0] if lines else "there", needed=needed)


def _accelerator(accelerator: Accelerator, *, fresh: bool) -> Probe:
    needed = accelerator is Accelerator.TCG
    try:
        proof = accelerator_proof(accelerator, fresh=fresh)
    except PowercutError as error:
        return Probe(accelerator.value, False, "not tried", str(error), error.hint, needed)
    if proof.ok:
        return Probe(accelerator.value, True, proof.detail, needed=needed)
    if accelerator is Accelerator.KVM:
        limit = f"{proof.detail}; guests run with TCG, at a fraction of the speed"
        wait = "if it is only slow: powercut doctor --patience SECONDS" if proof.silent else ""
        remedy = proof.remedy or wait or "another machine; after a change: powercut doctor --fresh"
        return Probe("kvm", False, "not usable", limit, remedy)
    if proof.silent and accelerator_proof(Accelerator.KVM, fresh=False).ok:
        limit = (
            f"{proof.detail}; guests run with KVM, and need it only where a scenario asks for it"
        )
        return Probe("tcg", False, "slow", limit, "powercut doctor --patience SECONDS")
    remedy = f"rm -r {BUILD / 'guest'}, then call {command()} doctor again"
    return Probe("tcg", False, "not usable", proof.detail, remedy, needed)


def _qemu(*, fresh: bool) -> Probe:
    del fresh
    try:
        return Probe("qemu", True, qemu_version(timeout_s=_TIMEOUT_S), needed=True)
    except PowercutError as error:
        return Probe("qemu", False, "nothing usable", str(error), error.hint, needed=True)


def _nbdkit(*, fresh: bool) -> Probe:
    del fresh
    return _tool("nbdkit", "nbdkit", "nbdkit", "--version", needed=True)


def _capture_disk(*, fresh: bool) -> Probe:
    del fresh
    name = "capture disk"
    if not CAPTURE_PLUGIN.exists():
        return Probe(name, False, "not built", f"no {CAPTURE_PLUGIN}", REBUILD, needed=True)
    try:
        fields = dict(
            line.split("=", 1)
            for line in _said("nbdkit", str(CAPTURE_PLUGIN), "--dump-plugin").splitlines()
            if "=" in line
        )
    except _Absent as absent:
        return Probe(name, False, "does not load", str(absent), REBUILD, needed=True)
    version = f"nbdkit loads it (plugin {fields.get('name', 'without a name')})"
    return Probe(name, True, version, needed=True)


def _guest_image(*, fresh: bool) -> Probe:
    del fresh
    try:
        image = current_guest_image()
    except PowercutError as error:
        return Probe("guest image", False, "not built", str(error), error.hint, needed=True)
    if image is None:
        limit = "there is none for these programs and apt's lists"
        remedy = "the next run makes it; apt-get update if that cannot find the kernel"
        return Probe("guest image", False, "missing or stale", limit, remedy, needed=True)
    found = f"Linux {image.kernel_release}, digest {image.digest[:12]}"
    return Probe("guest image", True, found, needed=True)


def _roots(*, fresh: bool) -> Probe:
    del fresh
    folder = CACHE / "roots"
    kept = cached_roots(folder)
    text = f"{len(kept)} root file systems, {sum(one.size for one in kept) / _MIB:.0f} MiB, "
    text += f"packages {packages_size(folder) / _MIB:.0f} MiB; `powercut doctor cache` drops them"
    return Probe("roots", True, text if folder.is_dir() else "none is in the cache")


def _uml(*, fresh: bool) -> Probe:
    slower = "crash states are recovered in guests, several times slower"
    proof = uml_proof(fresh=fresh, timeout_s=PROOF_TIMEOUT_S * patience())
    try:
        version = _said("linux.uml", "--version").splitlines()[-1]
    except _Absent as absent:
        return Probe("uml", False, "nothing usable", f"{absent}: {slower}", proof.remedy)
    if proof.ok:
        return Probe("uml", True, f"{version}: {proof.detail}")
    return Probe(
        "uml", False, f"{version}: does not work", f"{proof.detail}; {slower}", proof.remedy
    )


def _fuse(*, fresh: bool) -> Probe:
    del fresh
    device = Path("/dev/fuse")
    limit = "no disk can be a file: machine.aio other than nbd, virtio-pmem, nvdimm"
    if not os.access(device, os.R_OK | os.W_OK):
        why = "may not be opened by this user" if device.exists() else "is not there"
        remedy = "modprobe fuse; in a container: --device /dev/fuse"
        return Probe("fuse", False, "nothing usable", f"{device} {why}: {limit}", remedy)
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        remedy = "in a container: --device /dev/fuse --cap-add SYS_ADMIN"
        return Probe(
            "fuse", False, "nothing usable", f"{device}: {error.strerror}: {limit}", remedy
        )
    if shutil.which("nbdfuse") is None:
        why = f"no nbdfuse: {limit}"
        return Probe("fuse", False, str(device), why, "apt-get install libnbd-bin")
    try:
        _said(*alone_argv(), "true")
    except _Absent as absent:
        remedy = "allow user namespaces, or be root; in a container: --cap-add SYS_ADMIN"
        return Probe("fuse", False, str(device), f"{absent}: {limit}", remedy)
    return Probe("fuse", True, f"{device} opens, nbdfuse can have a mount namespace of its own")


def _captured_folder(*, fresh: bool) -> Probe:
    del fresh
    name, limit = "captured folder", "no `powercut capture`, no disk image of other hypervisors"
    try:
        try_folder()
    except PowercutError as error:
        why = str(error).splitlines()[-1].removeprefix("output: ")
        return Probe(name, False, "nothing usable", f"{why}: {limit}", error.hint)
    return Probe(name, True, "a command ran in a folder under its recorder, which was cut")


def _loop(*, fresh: bool) -> Probe:
    del fresh
    name, limit = "loop", "no program with `where: loop`"
    if why := "; ".join(loop_guest.unavailable()):
        return Probe(name, False, "nothing usable", f"{why}: {limit}", "be root of a machine")
    return Probe(name, True, "a command ran in its sandbox on a file system over a loop device")


def _xfsprogs(*, fresh: bool) -> Probe:
    del fresh
    return _tool("xfsprogs", "xfsprogs", "mkfs.xfs", "-V", needed=True)


def _e2fsprogs(*, fresh: bool) -> Probe:
    del fresh
    return _tool("e2fsprogs", "e2fsprogs", "mke2fs", "-V", needed=True)


def _btrfs_progs(*, fresh: bool) -> Probe:
    del fresh
    limit = "no scenario with btrfs"
    argv = ("mkfs.btrfs", "--version")
    return _tool("btrfs-progs", "btrfs-progs", *argv, needed=False, limit=limit)


def _f2fs_tools(*, fresh: bool) -> Probe:
    del fresh
    limit = "no scenario with f2fs"
    return _tool("f2fs-tools", "f2fs-tools", "mkfs.f2fs", "-V", needed=False, limit=limit)


def _sandbox(*, fresh: bool) -> Probe:
    del fresh
    sandboxes = try_sandboxes()
    if not sandboxes.none:
        return Probe("sandbox", True, f"tools that work on images run in {sandboxes}")
    limit = f"{sandboxes.none}: no mkfs options of a scenario, no image format but raw"
    return Probe("sandbox", False, "nothing usable", limit, SANDBOX_REMEDY)


def _disk_space(*, fresh: bool) -> Probe:
    del fresh
    free = {}
    for label, folder in (("results", RESULTS), ("build", BUILD)):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free[label] = shutil.disk_usage(there).free
    free_text = ", ".join(f"{size / _GIB:.1f} GiB free for {name}" for name, size in free.items())
    if min(free.values()) >= _SPACE_NEEDED:
        return Probe("disk space", True, free_text, needed=True)
    limit = f"less than {_SPACE_NEEDED // _GIB} GiB: recordings may not fit"
    remedy = f"delete old runs in {RESULTS}, or rm -r {BUILD}: what it held is made again"
    return Probe("disk space", False, free_text, limit, remedy, needed=True)


def _memory(*, fresh: bool) -> Probe:
    del fresh
    fields = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(fields["MemAvailable"].split()[0]) * 1024
    processors = len(os.sched_getaffinity(0))
    memory_text = f"{available / _GIB:.1f} GiB available, {count(processors, 'processor')}"
    if (quota := processor_quota()) < processors:
        memory_text += f", of which a control group lets it use {quota:g}"
    if available >= _MEMORY_NEEDED:
        return Probe("memory", True, memory_text, needed=True)
    limit = f"less than {_MEMORY_NEEDED >> 20} MiB: a guest and its disk may not fit"
    return Probe("memory", False, memory_text, limit, "close what uses it", needed=True)


_PROBES: Final[Mapping[str, Callable[..., Probe]]] = {
    "qemu": _qemu,
    "kvm": partial(_accelerator, Accelerator.KVM),
    "tcg": partial(_accelerator, Accelerator.TCG),
    "nbdkit": _nbdkit,
    "capture disk": _capture_disk,
    "guest image": _guest_image,
    "roots": _roots,
    "uml": _uml,
    "fuse": _fuse,
    "captured folder": _captured_folder,
    "loop": _loop,
    "xfsprogs": _xfsprogs,
    "e2fsprogs": _e2fsprogs,
    "btrfs-progs": _btrfs_progs,
    "f2fs-tools": _f2fs_tools,
    "sandbox": _sandbox,
    "disk space": _disk_space,
    "memory": _memory,
}

NAMES: Final = tuple(_PROBES)
"""The probes of the core."""


def examine(*, fresh: bool = False, patience_s: float | None = None) -> list[Probe]:
    """Every probe, in the order of `NAMES`, those of extras, and one for each broken extra.

    Accelerators are proved by booting a guest, once per boot of this host; `fresh` proves them
    again.  Takes well under a second when they are known, else up to 20 s.  `patience_s` is what
    a silent guest of a slow host gets to boot; if it speaks then, that is kept.
    """
    if patience_s is not None:
        for accelerator in Accelerator:
            with suppress(PowercutError):  # the probe itself says it
                accelerator_proof(accelerator, timeout_s=patience_s)
        uml_proof(timeout_s=patience_s)
    probes = [probe(fresh=fresh) for probe in _PROBES.values()]
    for name in registered(_EXTRAS):
        with suppress(HostError):  # said in a line of its own
            probes.append(_of_extra(name, fresh=fresh))
    return [*probes, *(Probe("extra", False, "broken", *said) for said in _broken())]


def requirement(name: str) -> Probe:
    """One probe by name, for tests that need it.  Raises KeyError for one that is not there."""
    return _PROBES[name](fresh=False) if name in _PROBES else _of_extra(name, fresh=False)


def _of_extra(name: str, *, fresh: bool) -> Probe:
    found: Probe = loaded(registered(_EXTRAS)[name])(fresh=fresh)
    return found


def _broken() -> Iterable[tuple[str, str]]:
    """Of each extra that fails in something that it has registered: what, and what to do."""
    groups = [group for group in entry_points().groups if group.startswith("powercut.")]
    found: dict[str, tuple[str, str]] = {}
    for place in (place for group in groups for place in registered(group).values()):
        try:
            loaded(place)
        except HostError as error:
            module = place.partition(":")[0]
            found.setdefault(module.rpartition(".")[0] or module, (str(error), error.hint))
    return found.values()


def can_run(probes: Iterable[Probe]) -> bool:
    """Whether everything is there that every scenario needs."""
    return all(probe.ok for probe in probes if probe.needed)
