# SPDX-License-Identifier: Apache-2.0
"""Which options of mkfs a scenario may give.

mkfs runs on the host, and its options can name another device, a file to read, a folder to
copy, a file to write an undo log to.  A scenario comes from anywhere.  So it may give the
options listed here, which say how the file system lies within the one image that powercut
made, and no others: an option that a newer mkfs brings is refused until it was looked at.

The lists follow mkfs.xfs(8), mke2fs(8), mkfs.btrfs(8) and mkfs.f2fs(8).  Words are taken apart as
getopt(3) does it: `-b 4096`, `-b4096`, `--sectorsize 4096` and `--sectorsize=4096`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

_NUMBER: Final = re.compile(r"[0-9][0-9A-Fa-fxX]*[A-Za-z]?")
_WORD: Final = re.compile(r"[A-Za-z0-9_.+-]+")
_LIST: Final = re.compile(r"\^?[A-Za-z0-9_.+-]+(,\^?[A-Za-z0-9_.+-]+)*")
_LABEL: Final = re.compile(r"[A-Za-z0-9_. +-]{0,255}")
_SWITCH: Final = re.compile(r"[01]")

_Names = dict[str, re.Pattern[str] | None]
"""Names, each with what its value looks like; None for a name that stands alone."""


def _suboptions(switches: str = "", numbers: str = "", alone: str = "") -> _Names:
    return {
        **dict.fromkeys(switches.split(), _SWITCH),
        **dict.fromkeys(numbers.split(), _NUMBER),
        **dict.fromkeys(alone.split(), None),
    }


_XFS: Final[dict[str, re.Pattern[str] | _Names | None]] = {
    "-b": _suboptions(numbers="size"),
    "-d": {
        **_suboptions("", "agcount agsize concurrency size sunit swidth su sw sectsize", "noalign"),
        **_suboptions("extszinherit cowextsize daxinherit rtinherit projinherit"),
    },
    "-i": _suboptions("attr projid32bit sparse nrext64 exchange", "maxpct perblock size align"),
    "-l": {
        **_suboptions("internal lazy-count", "agnum concurrency size version sunit su sectsize"),
        "internal": re.compile("1"),
    },
    "-m": _suboptions("crc finobt reflink rmapbt inobtcount bigtime autofsck metadir"),
    "-n": {**_suboptions("ftype parent", "size"), "version": re.compile("2|ci")},
    "-s": _suboptions(numbers="size sectsize"),
    "-L": _LABEL,
    "-K": None,
    "-f": None,
    "-q": None,
    "--unsupported": None,
}
_EXT4: Final[dict[str, re.Pattern[str] | _Names | None]] = {
    **dict.fromkeys(("-b", "-C", "-g", "-G", "-i", "-I", "-m", "-N", "-r"), _NUMBER),
    "-E": {
        **_suboptions(
            "lazy_itable_init lazy_journal_init packed_meta_blocks root_selinux no_copy_xattrs",
            "stride stripe-width stripe_width resize num_backup_sb desc-size desc_size "
            "mmp_update_interval orphan_file_size",
            "discard nodiscard test_fs assume_storage_prezeroed no_copy_xattrs",
        ),
        "assume_storage_prezeroed": _SWITCH,
        "hash_seed": re.compile(r"[0-9a-fA-F-]{36}|clear|random|time"),
        "hash_alg": _WORD,
        "encoding": _WORD,
        "encoding_flags": _WORD,
        "quotatype": re.compile(r"[a-z]+(:[a-z]+)*"),
        "revision": _NUMBER,
    },
    "-J": _suboptions(numbers="size fast_commit_size location"),
    "-O": _LIST,
    "-e": _WORD,
    "-o": _WORD,
    "-L": _LABEL,
    "-T": _LIST,
    **dict.fromkeys(("-j", "-q", "-v", "-F"), None),
}
_BTRFS: Final[dict[str, re.Pattern[str] | _Names | None]] = {
    **dict.fromkeys(("-d", "--data", "-m", "--metadata"), re.compile("single|dup|SINGLE|DUP")),
    **dict.fromkeys(("-n", "--nodesize", "-s", "--sectorsize", "-b", "--byte-count"), _NUMBER),
    **dict.fromkeys(("-O", "--features", "-R", "--runtime-features"), _LIST),
    **dict.fromkeys(("--csum", "--checksum"), _WORD),
    **dict.fromkeys(("-L", "--label"), _LABEL),
    **dict.fromkeys(("-M", "--mixed", "-K", "--nodiscard", "-f", "--force", "-q", "-v"), None),
}
_F2FS: Final[dict[str, re.Pattern[str] | _Names | None]] = {
    **dict.fromkeys(("-a", "-d", "-o", "-s", "-w", "-z"), _NUMBER),
    "-t": re.compile("0"),
    **dict.fromkeys(("-O", "-C", "-e", "-E"), _LIST),
    "-l": _LABEL,
    **dict.fromkeys(("-f", "-i", "-q", "-r"), None),
}
_ALLOWED: Final = {"xfs": _XFS, "ext4": _EXT4, "btrfs": _BTRFS, "f2fs": _F2FS}

_DEVICE: Final = "names another device"
_READS: Final = "makes mkfs read another file"
_COPIES: Final = "copies files of the host into the image"
_UUID: Final = "the UUID is powercut's, so that the same scenario gives the same image"
_WHY: Final = {
    "xfs": {
        "-c": _READS,
        "-p": _COPIES,
        "-r": _DEVICE,
        "-l logdev": _DEVICE,
        "-l name": _DEVICE,
        "-d name": _DEVICE,
        "-d file": _DEVICE,
        "-m uuid": _UUID,
        "-N": "makes no file system",
        "-V": "makes no file system",
    },
    "ext4": {
        "-J device": _DEVICE,
        "-O journal_dev": "makes a journal for another device, and no file system",
        "-d": _COPIES,
        "-E root_owner": "the workload runs as root",
        "-E offset": "leaves the start of the disk to something else",
        "-l": _READS,
        "-z": "writes another file",
        "-t": "the type is filesystem.type",
        "-U": _UUID,
        "-c": "looks for bad blocks, of which an image has none",
        "-n": "makes no file system",
        "-S": "makes no file system",
        "-V": "makes no file system",
    },
    "btrfs": {
        **dict.fromkeys(("-r", "--rootdir"), _COPIES),
        "--shrink": "goes with --rootdir, which copies files of the host into the image",
        **dict.fromkeys(("-U", "--uuid", "--device-uuid"), _UUID),
        **dict.fromkeys(("-d", "--data", "-m", "--metadata"), "there is one disk: single or dup"),
        **dict.fromkeys(("-V", "--version", "--help"), "makes no file system"),
    },
    "f2fs": {
        "-c": _DEVICE,
        "-m": "there is one disk, without zones",
        "-R": "the workload runs as root",
        "-S": "makes an archive of what is written, and no image",
        "-U": _UUID,
        "-V": "makes no file system",
    },
}
"""What is known of options that are not allowed."""


def refused_mkfs_options(filesystem: str, words: Sequence[str]) -> tuple[str, ...]:
    """What of `words` may not be given to the mkfs of `filesystem`, a sentence each.

    `filesystem` is `xfs`, `ext4`, `btrfs` or `f2fs`; anything else has no mkfs, and no options.
    """
    allowed = _ALLOWED.get(filesystem)
    if allowed is None:
        return tuple(f"{word!r}: there is no mkfs to give it to" for word in words)
    return tuple(_refused(filesystem, allowed, list(words)))


def _refused(
    filesystem: str, allowed: Mapping[str, re.Pattern[str] | _Names | None], words: list[str]
) -> Iterator[str]:
    while words:
        word = words.pop(0)
        name, value = _split(word)
        if not name:
            yield (
                f"{word!r} would name another device or file; mkfs runs on the host and may touch "
                "nothing but the image"
            )
            continue
        if name not in allowed:
            # What follows may be its value, which no longer matters.
            if words and not words[0].startswith("-"):
                words.pop(0)
            yield _unknown(filesystem, name)
            continue
        shape = allowed[name]
        if shape is None:
            if value is not None:
                yield f"{word!r}: {name} stands alone; write one option a list entry"
            continue
        if value is None:
            if not words:
                yield f"{name} needs a value"
                continue
            value = words.pop(0)
        yield from _refused_value(filesystem, name, shape, value)


def _split(word: str) -> tuple[str, str | None]:
    """The option in `word`, empty if it is none, and the value that is attached to it."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        return ("" if name == "--" else name), (value if equals else None)
    if word.startswith("-") and len(word) > 1:
        return word[:2], word[2:] or None
    return "", None


def _refused_value(
    filesystem: str, name: str, shape: re.Pattern[str] | _Names, value: str
) -> Iterator[str]:
    if isinstance(shape, re.Pattern):
        why = _WHY[filesystem]
        named = [item for item in value.split(",") if f"{name} {item}" in why]
        if named:
            yield f"{name} {named[0]} {why[f'{name} {named[0]}']}"
        elif not shape.fullmatch(value):
            known = why.get(name)
            yield f"{name} {value!r}: {known or 'no value of this option looks like that'}"
        return
    for item in value.split(","):
        key, equals, given = item.partition("=")
        if key not in shape:
            yield _unknown(filesystem, f"{name} {key}")
            continue
        wanted = shape[key]
        if equals and wanted is None:
            yield f"{name} {key} stands alone"
        elif equals and wanted is not None and not wanted.fullmatch(given):
            yield f"{name} {key}={given!r}: no value of this option looks like that"


def _unknown(filesystem: str, option: str) -> str:
    known = _WHY[filesystem].get(option)
    if known:
        return f"{option}: {known}; mkfs runs on the host and may touch nothing but the image"
    return f"{option!r} is none of the options that powercut gives to mkfs.{filesystem} on the host"
