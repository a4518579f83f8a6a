# SPDX-License-Identifier: Apache-2.0
"""Runs a program that may open some files and nothing else of the host (landlock(7)).

    python -I -S landlock.py [--remove FOLDER] [--read PATH]... [--write FILE]... [--fill FOLDER]...
                             -- PROGRAM ...

It is run as a file, in a process of its own: what Landlock takes away is not given back.  The
program may read and execute what lies at or below each PATH, read and write each FILE, and make
and remove anything but devices below each FOLDER.  With --remove the program is a child, and an
empty FOLDER goes after it, whatever has ended it; it lies in a folder where the child may not.
Everything else that the kernel's version of Landlock knows is refused: to open another file
or device, to make, rename or remove one, TCP, signals to others.  Before that all
capabilities go, so that root is nobody special, and no program can get privileges back.

Numbers are those of include/uapi/linux/landlock.h, prctl.h, securebits.h and capability.h, Linux
6.18.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import signal
import stat
import sys

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # alike on every architecture
_RULE_PATH_BENEATH = 1
_GET_VERSION = 1  # LANDLOCK_CREATE_RULESET_VERSION
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECUREBITS = 28
_NO_ROOT = 1 << 0 | 1 << 1  # SECBIT_NOROOT, and that it stays
_CAPABILITY_VERSION_3 = 0x20080522

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FILES_KNOWN = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}
"""Rights on files, by the ABI that brought them."""

_MAKE_DEVICE = 1 << 6 | 1 << 11  # character, block
_IOCTL_DEVICE = 1 << 15

_TCP_KNOWN = {4: 3}
_SCOPES_KNOWN = {6: 3}
_FOR_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE

_libc = ctypes.CDLL(None, use_errno=True)


class _Ruleset(ctypes.Structure):
    _fields_ = [
        ("files", ctypes.c_uint64),
        ("tcp", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    ]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # what _pack_ has meant so far; from Python 3.14 it has to be said
    _fields_ = [("rights", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def _known(by_abi: dict[int, int], abi: int) -> int:
    return max((bits for since, bits in by_abi.items() if since <= abi), default=0)


def abi_version() -> int:
    """The kernel's version of Landlock, from 1.  Raises OSError if it has none."""
    version = _libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _GET_VERSION)
    return _checked(int(version), "landlock")


def confine(read: list[str], write: list[str], fill: list[str]) -> None:
    """Leaves this process, for good, what the three lists name.  Raises OSError."""
    abi = abi_version()
    handled = _known(_FILES_KNOWN, abi)
    ruleset = _Ruleset(handled, _known(_TCP_KNOWN, abi), _known(_SCOPES_KNOWN, abi))
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    made = _libc.syscall(_CREATE_RULESET, ctypes.byref(ruleset), ctypes.c_size_t(size), 0)
    rules = _checked(int(made), "landlock_create_ruleset")
    for path in read:
        _allow(rules, path, handled & (_EXECUTE | _READ_FILE | _READ_DIR))
    for path in write:
        _allow(rules, path, handled & (_READ_FILE | _WRITE_FILE | _TRUNCATE | _IOCTL_DEVICE))
    for path in fill:
        _allow(rules, path, handled & ~(_MAKE_DEVICE | _IOCTL_DEVICE))
    _drop_capabilities()
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    _checked(int(_libc.syscall(_RESTRICT_SELF, rules, 0)), "landlock_restrict_self")
    os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            rights &= _FOR_FILES
        beneath = _Beneath(rights, parent)
        added = _libc.syscall(_ADD_RULE, rules, _RULE_PATH_BENEATH, ctypes.byref(beneath), 0)
        _checked(int(added), f"landlock_add_rule {path}")
    finally:
        os.close(parent)


def _drop_capabilities() -> None:
    """All of them: a program of root's does not get them back at exec.

    no_new_privs alone would see to that; but the kernel takes each exec of such a program for
    one that gains capabilities, and then clears its personality (PER_CLEAR_ON_SETID in the
    kernel's security/commoncap.c).  A User-Mode Linux that wants ADDR_NO_RANDOMIZE and starts
    itself anew to get it would do so for ever.
    """
    if _libc.prctl(_PR_SET_SECUREBITS, _NO_ROOT, 0, 0, 0) < 0 and ctypes.get_errno() != errno.EPERM:
        raise OSError(ctypes.get_errno(), "securebits")  # EPERM: there is nothing to drop
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(none)), "capset")


def _outlive(child: int, folder: str) -> int:
    """The exit status of a child, which decides alone when it ends; then `folder` is removed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # an end of the child's is to be seen
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with contextlib.suppress(OSError):
        os.rmdir(folder)  # noqa: PTH106
    return 128 - status if status < 0 else status


def main(words: list[str]) -> int:
    """Confines itself and becomes the program; returns only if it cannot."""
    read: list[str] = []
    write: list[str] = []
    fill: list[str] = []
    remove: list[str] = []
    lists = {"--read": read, "--write": write, "--fill": fill, "--remove": remove}
    with contextlib.suppress(ValueError):
        end = words.index("--")
        options, program = words[:end], words[end + 1 :]
        for option, path in zip(options[::2], options[1::2], strict=True):
            lists[option].append(path)
        if remove and (child := os.fork()):
            return _outlive(child, remove[0])
        try:
            confine(read, write, fill)
            os.execv(program[0], program)
        except OSError as error:
            sys.stderr.write(f"{error.strerror or error}\n")
            return 125
    sys.stderr.write(
        "usage: landlock.py [--remove FOLDER] [--read PATH] [--write FILE] [--fill FOLDER] "
        "-- PROGRAM\n"
    )
    return 125


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
