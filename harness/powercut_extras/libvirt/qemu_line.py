# SPDX-License-Identifier: Apache-2.0
"""A command line of QEMU, translated to a domain of libvirt: what matters to its disks.

The text is what `ps` prints, a shell script, a unit of systemd, or a file for -readconfig, which
says the same in sections (qemu.readthedocs.io, Invocation).  Where a drive says nothing, QEMU has
cache=writeback, aio=threads, discard=ignore and detect-zeroes=off.  Nothing is run or expanded: a
disk of which a word is a variable of the shell is left out.
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from powercut.model.errors import UsageError
from powercut.scenario.likeness import LeftOut, Likeness
from powercut_extras.libvirt.meaning import (
    BESIDE,
    CARRIED,
    DECIDES,
    ELSEWHERE,
    ERRORS,
    SLOWED,
    Fate,
    Meaning,
    left_out,
    meaning_of,
    rows,
)
from powercut_extras.libvirt.translated import (
    LARGEST,
    TranslatedDisk,
    TranslatedMachine,
    number_of,
    read_translated,
    size_of,
)

_PROGRAM: Final = re.compile(
    r"(?:(?:^|[\s=/'\"])(?:qemu-system-x86_64|qemu-kvm)|(?:^|/)kvm)['\"]?\s+(?=-)", re.MULTILINE
)
_JSON: Final = re.compile(r"""(?<=\s)(\{"\S*\})(?=\s|$)""")
"""As `ps` prints it, without the shell's quotes."""

_SECTION: Final = re.compile(r"^\[(drive|device|machine|blockdev|object)\b", re.MULTILINE)
_DIFFERS: Final = "QEMU: this host's is used, whatever ran that command line"

Words = dict[str, str]
"""What is said in one option; a word without a value is `on`, the first one may be `""`."""

_TOLD: Final = Meaning(Fate.NO_EFFECT, "what the guest is told of the disk, or where it sits")
_QCOW2: Final = Meaning(Fate.LEFT_OUT, "how QEMU keeps an image's own tables; here as usual")
_SHARED: Final = Meaning(Fate.LEFT_OUT, "other machines may write to it at the same time", ("off",))
_PLACE: Final = Meaning(Fate.NO_EFFECT, "where the data lies: a disk of powercut's stands in")

DRIVE: Final = {
    **rows(CARRIED, "drive/%", "if format cache aio discard detect-zeroes id"),
    **rows(CARRIED, "drive/%", "driver node-name cache.direct cache.no-flush"),
    **rows(CARRIED, "drive/%", "cache.writeback iothread"),
    **rows(DECIDES, "drive/%", "media readonly read-only snapshot"),
    **rows(_PLACE, "drive/%", "file filename file.driver file.filename index bus unit locking"),
    **rows(_PLACE, "drive/%", "file.locking auto-read-only file.node-name"),
    "drive/serial": _TOLD,
    **rows(ERRORS, "drive/%", "werror rerror"),
    **rows(_QCOW2, "drive/%", "l2-cache-size cache-size refcount-cache-size cache-clean-interval"),
    **rows(_QCOW2, "drive/%", "lazy-refcounts discard-no-unref pass-discard-request"),
    "drive/copy-on-read": Meaning(Fate.LEFT_OUT, "reads write to the image, too", ("off",)),
    "drive/backing": Meaning(Fate.LEFT_OUT, "the image lies over another; here it is empty"),
    **rows(SLOWED, "drive/%", "iops iops_rd iops_wr bps bps_rd bps_wr group throttling.group"),
    **rows(SLOWED, "drive/throttling.%", "iops-total iops-read iops-write bps-total bps-read"),
    **rows(SLOWED, "drive/throttling.%", "bps-write iops-total-max iops-size"),
}
"""Words of -drive, and of the nodes that -blockdev makes."""

DEVICE: Final = {
    **rows(CARRIED, "device/%", "driver drive id iothread num-queues num_queues write-cache"),
    **rows(CARRIED, "device/%", "logical_block_size physical_block_size bus"),
    **rows(_TOLD, "device/%", "addr serial wwn product vendor ver model bootindex channel unit"),
    **rows(_TOLD, "device/%", "scsi-id lun device_id rotation_rate removable multifunction"),
    **rows(_TOLD, "device/%", "cyls heads secs lcyls lheads lsecs acpi-index nsid removable"),
    **rows(ERRORS, "device/%", "werror rerror"),
    "device/share-rw": _SHARED,
    "device/discard_granularity": Meaning(Fate.LEFT_OUT, "in what pieces the guest discards"),
    "device/dpofua": Meaning(Fate.LEFT_OUT, "whether it knows FUA: machine.bus has both", ("off",)),
}
"""Words of -device, of a disk."""

_PAST: Final = Meaning(Fate.LEFT_OUT, "properties that are set for devices of a kind, or later")

OPTION: Final = {
    **rows(CARRIED, "-%", "drive blockdev device hda hdb hdc hdd machine M name smp cpu object"),
    **rows(CARRIED, "-%", "snapshot cdrom no-acpi readconfig $ sd mtdblock"),
    **rows(_PAST, "-%", "global set"),
    **rows(ELSEWHERE, "-%", "m accel enable-kvm display nographic vnc spice vga daemonize pidfile"),
    **rows(ELSEWHERE, "-%", "serial parallel monitor qmp qmp-pretty chardev mon msg D d trace"),
    **rows(ELSEWHERE, "-%", "net netdev nic uuid boot kernel initrd append dtb bios pflash fda"),
    **rows(ELSEWHERE, "-%", "fdb usb k rtc no-reboot no-shutdown action smbios sandbox"),
    **rows(ELSEWHERE, "-%", "runas run-with chroot nodefaults no-user-config nouserconfig S gdb s"),
    **rows(ELSEWHERE, "-%", "watchdog watchdog-action balloon soundhw audiodev audio overcommit"),
    **rows(
        ELSEWHERE, "-%", "mem-path mem-prealloc numa fw_cfg incoming icount loadvm only-migratable"
    ),
    **rows(ELSEWHERE, "-%", "no-hpet no-fd-bootchk full-screen g L tpmdev compat echr acpitable"),
    **rows(ELSEWHERE, "-%", "add-fd debugcon seed realtime rotate portrait win2k-hack"),
}

_FLAGS: Final = (
    *("enable-kvm", "nographic", "daemonize", "S", "s", "snapshot", "nodefaults", "usb"),
    *("no-user-config", "nouserconfig", "no-acpi", "no-reboot", "no-shutdown", "no-hpet"),
    *("no-fd-bootchk", "full-screen", "mem-prealloc", "only-migratable", "win2k-hack", "portrait"),
)
"""Options that nothing follows."""

_UNREAD: Final = {
    "readconfig": "the file that it names is not read: give its text as a definition, too",
    "sd": "powercut has no guest with such a disk",
    "mtdblock": "powercut has no guest with such a disk",
}
_BUSES: Final = {
    "virtio-blk": "virtio", "virtio-blk-pci": "virtio", "virtio-blk-device": "virtio",
    "virtio-blk-pci-non-transitional": "virtio", "virtio-blk-pci-transitional": "virtio",
    "scsi-hd": "scsi", "scsi-disk": "scsi", "ide-hd": "ide", "ide-drive": "ide", "nvme": "nvme",
    "nvme-ns": "nvme", "usb-storage": "usb",
}  # fmt: skip
_BY_OTHERS: Final = "another process serves it by vhost-user, and what it caches is not said"
_NOT_MADE: Final = {
    "scsi-block": "a device of the host that is passed through",
    "scsi-generic": "a device of the host that is passed through",
    "vhost-user-blk-pci": _BY_OTHERS,
    "vhost-user-scsi-pci": _BY_OTHERS,
    "vhost-scsi-pci": "the host's kernel serves it (vhost-scsi)",
}
_BESIDE: Final = (
    "vfio-pci",
    "virtio-9p",
    "vhost-user-fs",
    "nvdimm",
    "virtio-pmem",
    "usb-host",
    "usb-mtp",
)
_LEGACY: Final = ("-transitional", "ide-drive", "scsi-disk")
_REMOVABLE: Final = ("scsi-cd", "ide-cd", "floppy", "isa-fdc", "cfi.pflash01")
_FILES: Final = ("file", "host_device", "raw")
_CACHES: Final = {  # write cache, O_DIRECT
    (True, False): "writeback", (True, True): "none",
    (False, False): "writethrough", (False, True): "directsync",
}  # fmt: skip
_MODES: Final = {
    **{mode: mode for mode in ("none", "writeback", "writethrough", "directsync", "unsafe")},
    "off": "none",
}


def is_qemu_line(text: str) -> bool:
    """Whether the text has a command line of QEMU's, or is a file for -readconfig."""
    head = text[:LARGEST].replace("\\\n", " ")
    return _PROGRAM.search(head) is not None or _SECTION.search(head) is not None


def read_qemu_line(text: str, connect: str | None) -> Likeness:
    """How machines are made that are like the one that the command line starts.

    Raises UsageError for what is no such line, or starts no disk that can be made here.
    """
    if len(text) > LARGEST:
        raise UsageError("a definition of a machine is short")
    found = _Machine()
    options = _sections(text) if _SECTION.search(text) else _options(text)
    for option, words in options:
        found.take(option, words)
    return read_translated(found.translated(), connect)


@dataclass
class _Machine:
    """What the options of one command line say."""

    name: str = "machine"
    board: str = "pc"
    vcpus: int = 1
    cpu: str = ""
    acpi: bool = True
    snapshot: bool = False
    drives: dict[str, Words] = field(default_factory=dict)
    devices: list[Words] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    missing: list[LeftOut] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def take(self, option: str, words: Words) -> None:
        """The next option."""
        row = meaning_of(OPTION, f"-{option}")
        if row.fate is Fate.LEFT_OUT:
            said = " ".join(f"{key}={value}" if key else value for key, value in words.items())
            self.left_out += left_out(OPTION, [(f"-{option}", said)], "command line")
        match option:
            case "drive" | "blockdev":
                key = words.get("id") or words.get("node-name") or f"drive{len(self.drives)}"
                self.drives[key] = {"if": "none", **words} if option == "blockdev" else words
            case "hda" | "hdb" | "hdc" | "hdd":
                self.drives[option] = {"if": "ide", "file": words.get("", "")}
            case "device":
                self.devices.append(words)
            case "machine" | "M":
                self.board = words.get("type") or words.get("", self.board)
                self.acpi = words.get("acpi", "on") != "off"
            case "name":
                self.name = words.get("guest") or words.get("", self.name)
            case "smp":
                parts = (words.get(key, "1") for key in ("sockets", "dies", "cores", "threads"))
                whole = math.prod(map(number_of, parts))
                self.vcpus = number_of(words.get("cpus") or words.get(""), whole)
            case "cpu":
                self.cpu = words.get("", "")
            case "no-acpi" | "snapshot":
                self.acpi &= option != "no-acpi"
                self.snapshot |= option == "snapshot"
            case "$":
                why = "it may name disks, and only the shell knows"
                self.missing.append(LeftOut(f"{words['']} of the command line", why))
            case "readconfig" | "sd" | "mtdblock":
                self.missing.append(LeftOut(f"-{option}", _UNREAD[option]))

    def translated(self) -> TranslatedMachine:
        """The machine.  Raises UsageError if there is none with a disk."""
        disks = tuple(self._disks())
        if not disks and not self.missing:
            raise UsageError("this command line of QEMU has no disk")
        host = self.cpu.partition(",")[0] in ("host", "max", "")
        return TranslatedMachine(
            name=self.name,
            machine=self.board,
            vcpus=self.vcpus,
            disks=disks,
            cpu_mode="" if host else "custom",
            cpu_model="" if host else self.cpu.partition(",")[0],
            acpi=self.acpi,
            left_out=tuple(self.left_out),
            disks_left_out=tuple(self.missing),
            differs=(_DIFFERS, *self.others),
        )

    def _disks(self) -> Iterator[TranslatedDisk]:
        attached = {words.get("drive", "") for words in self.devices}
        for words in self.devices:
            driver = words.get("driver") or words.get("", "")
            name = words.get("id") or words.get("drive") or driver
            if driver.endswith(_LEGACY):
                self.left_out.append(LeftOut(f"-device {driver}", "as older guests know it"))
            if driver in _BUSES and "drive" in words:
                yield from self._disk(name, words, self.drives.get(words["drive"]), _BUSES[driver])
            elif driver in _NOT_MADE:
                self.missing.append(LeftOut(f"disk {name}", _NOT_MADE[driver]))
            elif "$" in driver:
                self.missing.append(LeftOut(f"-device {driver}", "only the shell knows what it is"))
            elif driver in _REMOVABLE:
                self.others.append(f"disk {name} is not tested: a removable medium")
            elif "drive" in words:
                self.missing.append(LeftOut(f"disk {name}", f"powercut makes no {driver}"))
            elif driver.startswith(_BESIDE):
                self.left_out.append(LeftOut(f"-device {driver}", BESIDE.why))
        for key, words in self.drives.items():
            if key not in attached and words.get("if", "ide") not in ("none", "pflash", "floppy"):
                yield from self._disk(key, {}, words, words.get("if", "ide"))

    def _disk(
        self, name: str, device: Words, drive: Words | None, bus: str
    ) -> Iterator[TranslatedDisk]:
        label = f"disk {name}"
        if drive is None:
            self.missing.append(LeftOut(label, f"no drive is called {device.get('drive')}"))
            return
        whole = self._with_nodes_below(drive, label)
        if whole.get("media") == "cdrom":
            self.others.append(f"{label} is not tested: a removable medium")
            return
        if "on" in (whole.get("readonly"), whole.get("read-only")):
            self.others.append(f"{label} is not tested: it is read-only")
            return
        self.left_out += left_out(DRIVE, ((f"drive/{k}", v) for k, v in whole.items()), label)
        said = ((f"device/{k}", v) for k, v in device.items() if k)
        self.left_out += left_out(DEVICE, said, label)
        if why := self._why_not(whole, device, bus):
            self.missing.append(LeftOut(label, why))
            return
        path = whole.get("file") or whole.get("filename") or whole.get("file.filename", "")
        if scheme := re.match(r"[a-z+]{2,12}:", path):
            why = "its client may have a cache; here a file stands in"
            self.left_out.append(LeftOut(f"{label}: file={scheme[0]}", why))
        image = whole.get("format") or whole.get("driver", "")
        if image in ("", *_FILES[:2]):
            image = "qcow2" if path.endswith(".qcow2") else "raw"
            if "driver" not in whole:
                guess = f"QEMU looks into the image; here it is taken for {image}"
                self.left_out.append(LeftOut(f"{label}: format", guess))
        thread = "iothread" in device
        controller = self._controller(device) if bus == "scsi" else {}
        yield TranslatedDisk(
            bus="sata" if bus == "ide" and "q35" in self.board else bus,
            image=image,
            cache=_cache(whole, device) or "",
            io=whole.get("aio", "threads"),
            discard="unmap" if whole.get("discard") in ("on", "unmap") else "ignore",
            detect_zeroes=whole.get("detect-zeroes", "off"),
            dedicated=thread or "iothread" in controller,
            queues=number_of(device.get("num-queues") or controller.get("num_queues", "0"), 0),
            in_file=not path.startswith("/dev/"),
            name=name,
            alone=bool(controller),
            logical=size_of(device.get("logical_block_size")),
            physical=size_of(device.get("physical_block_size")),
        )

    def _why_not(self, drive: Words, device: Words, bus: str) -> str:
        """Why none like a disk can be made here; empty if one can."""
        for words in (drive, device):
            for key, value in words.items():
                if "$" in value and key not in ("file", "filename", "file.filename", "serial"):
                    return f"{key} is {value}, which only the shell knows"
        if self.snapshot or drive.get("snapshot") == "on":
            return "snapshot: all that is written to it is discarded when the machine stops"
        if bus == "scsi" and not self._controller(device):
            return "of SCSI controllers only virtio-scsi is known"
        if _cache(drive, device) is None:
            return "its cache is none that powercut has a word for"
        return ""

    def _controller(self, device: Words) -> Words:
        """The virtio-scsi controller of a SCSI disk; empty if it is on none."""
        wanted = device.get("bus", "").partition(".")[0]
        for words in self.devices:
            driver = words.get("driver") or words.get("", "")
            if driver.startswith("virtio-scsi") and wanted in ("", words.get("id", "")):
                return words
        return {}

    def _with_nodes_below(self, drive: Words, label: str) -> Words:
        """A drive with what the nodes below it say (-blockdev), from above."""
        whole, seen = dict(drive), set[str]()
        while (below := self.drives.get(whole.get("file", ""))) is not None:
            if whole["file"] in seen:
                break
            seen.add(whole["file"])
            driver = below.get("driver") or below.get("", "")
            if driver not in _FILES:
                why = "a layer or a client that stands between, and may have a cache"
                self.left_out.append(LeftOut(f"{label}: {driver}", why))
            whole = {**below, **{k: v for k, v in whole.items() if k != "file"}}
        return whole


def _cache(drive: Words, device: Words) -> str | None:
    """The mode of a disk's cache; None if it is none of QEMU's."""
    mode = _MODES.get(drive.get("cache", "writeback"))
    if mode is None:
        return None
    write = mode in ("none", "writeback", "unsafe")
    direct = drive.get("cache.direct", "on" if mode in ("none", "directsync") else "off") == "on"
    if "cache.writeback" in drive:
        write = drive["cache.writeback"] == "on"
    if device.get("write-cache", "auto") != "auto":
        write = device["write-cache"] == "on"
    if drive.get("cache.no-flush", "on" if mode == "unsafe" else "off") == "on":
        return "unsafe" if write and not direct else None
    return _CACHES[write, direct]


def _options(text: str) -> Iterator[tuple[str, Words]]:
    """Each option of the first command line of QEMU in the text."""
    joined = text.replace("\\\n", " ")
    begin = _PROGRAM.search(joined)
    if begin is None:
        raise UsageError("there is no command line of QEMU in it")
    if (count := len(_PROGRAM.findall(joined))) > 1:
        raise UsageError(f"it starts {count} machines", hint="give the command line of one")
    line = _JSON.sub(lambda one: shlex.quote(one[1]), joined[begin.end() :].partition("\n")[0])
    try:
        words = shlex.split(line, comments=True)
    except ValueError as error:
        raise UsageError(f"the command line of QEMU: {error}") from None
    option = ""
    for word in words:
        if word in ("&", ";", "&&", "||", "|", ">", "2>&1", "<"):
            break
        if word.startswith("-") and len(word) > 1:
            if option:
                yield option, {}
            option = word.lstrip("-")
            if option in _FLAGS:
                yield option, {}
                option = ""
        elif option:
            yield option, _words(word)
            option = ""
        else:
            yield "$" if "$" in word else "hda", {"": word}  # an image without an option is a disk
    if option:
        yield option, {}


def _words(text: str) -> Words:
    """What stands behind an option: `a,b=c` or JSON; two commas are one of the value's."""
    if text.startswith("{"):
        try:
            value = json.loads(text)
        except ValueError as error:
            raise UsageError(f"the command line of QEMU: {error}: {text[:60]!r}") from None
        return dict(_flat(value, ""))
    found: Words = {}
    for position, part in enumerate(re.split(r"(?<!,),(?!,)", text)):
        key, equals, value = part.replace(",,", ",").partition("=")
        if equals:
            found[key] = value
        elif position == 0:
            found[""] = key
        else:
            found[key.removeprefix("no")] = "off" if key.startswith("no") else "on"
    return found


def _flat(value: Mapping[str, object], at: str) -> Iterator[tuple[str, str]]:
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{at}{key}.")
        elif isinstance(inner, bool):
            yield f"{at}{key}", "on" if inner else "off"
        else:
            yield f"{at}{key}", str(inner)


def _sections(text: str) -> Iterator[tuple[str, Words]]:
    """The same of a file for -readconfig."""
    option, words = "", Words()
    for line in (*text.splitlines(), "[end]"):
        bare = line.strip()
        if section := re.fullmatch(r'\[([a-z-]+)(?:\s+"([^"]*)")?\]', bare):
            if option:
                yield option, words
            option, words = section[1], {"id": section[2]} if section[2] else {}
        elif pair := re.fullmatch(r'([A-Za-z0-9_.-]+)\s*=\s*"?([^"]*)"?', bare):
            words[pair[1]] = pair[2]
        elif bare and not bare.startswith("#"):
            raise UsageError(f"this is no file for -readconfig: {bare[:60]!r}")
