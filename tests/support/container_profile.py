# SPDX-License-Identifier: Apache-2.0
"""Runs a command as a container does by default: Docker's seccomp profile and capabilities.

    python container_profile.py COMMAND...

The profile is that of moby (profiles/seccomp/default.json) for a container without
CAP_SYS_ADMIN on x86-64, the part of it that refuses something which would otherwise work.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_EPERM, _ENOSYS = 1, 38
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06  # linux/filter.h
_NEWUSER = 0x10000000
_NAMESPACES = 0x7E020000  # all CLONE_NEW* of clone(2)
_CLONE, _CLONE3, _PERSONALITY = 56, 435, 135
_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

_REFUSED = (
    *(103, 153, 155, 163, 164, 165, 166, 167, 168, 169, 170, 171, 172, 173, 175, 176, 179),
    *(212, 227, 237, 238, 246, 248, 249, 250, 256, 272, 279, 298, 300, 304, 308, 312, 313),
    *(320, 321, 323, 425, 426, 427, 428, 429, 430, 431, 432, 433, 442),
)
"""syslog, vhangup, pivot_root, acct, settimeofday, mount, umount2, ..., unshare, ..., setns, ...,
bpf, userfaultfd, io_uring_*, fsopen and its kin, mount_setattr."""

_CAPABILITIES = (
    "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,"
    "sys_chroot,mknod,audit_write,setfcap"
)


def _program() -> bytes:
    """The filter, for struct seccomp_data: nr at 0, low halves of the arguments from 16."""

    def op(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
        return struct.pack("<HBBI", code, yes, no, value)

    refuse = op(_RETURN, _ERRNO | _EPERM)
    parts = [op(_LOAD, 0)]
    for number in _REFUSED:
        parts += [op(_EQUAL, number, 0, 1), refuse]
    parts += [op(_EQUAL, _CLONE3, 0, 1), op(_RETURN, _ERRNO | _ENOSYS)]
    parts += [op(_EQUAL, _CLONE, 0, 4), op(_LOAD, 16), op(_ANY_BIT, _NAMESPACES, 0, 1), refuse]
    parts += [op(_RETURN, _ALLOW)]
    known = [op(_EQUAL, value, len(_PERSONALITIES) - n) for n, value in enumerate(_PERSONALITIES)]
    parts += [op(_EQUAL, _PERSONALITY, 0, 2 + len(known)), op(_LOAD, 16), *known, refuse]
    return b"".join([*parts, op(_RETURN, _ALLOW)])


def _install(program: bytes) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, header, 0, 0) == 0:
        return
    # Without CAP_SYS_ADMIN only a process that can gain no privileges may.
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(_PR_SET_SECCOMP, _FILTER, header, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_SECCOMP")


def main() -> None:
    """Installs the filter, drops capabilities, becomes the command."""
    command = sys.argv[1:]
    if os.geteuid() == 0:
        kept = ",".join(f"+{name}" for name in _CAPABILITIES.split(","))
        command = ["setpriv", f"--bounding-set=-all,{kept}", "--", *command]
    _install(_program())
    if ctypes.CDLL(None, use_errno=True).unshare(_NEWUSER) == 0:
        sys.exit(f"{sys.argv[0]} plays no container: a user namespace was made")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
