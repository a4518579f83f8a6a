# SPDX-License-Identifier: Apache-2.0
"""Planted in what keeps checks from the host."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import CHECKS

checks = planter("sandbox", CHECKS)

_P = "harness/powercut"

MUTANTS: tuple[Mutant, ...] = (
    *checks(
        "harness/guard/check.c",
        (
            "no-cover",
            At("cover", "if (S_ISSOCK(status.st_mode)"),
            "if (S_ISBLK(status.st_mode)",
            "a check reaches the host's sockets",
        ),
        (
            "gone-is-fatal",
            At("cover", "errno == ENOENT || errno == ENOTDIR"),
            "errno == ENOTDIR",
            "a socket that has gone ends an honest check",
        ),
        (
            "traceable",
            At("reap", "PR_SET_DUMPABLE, 0"),
            "PR_SET_DUMPABLE, 1",
            "a check traces PID 1, behind which no socket is covered",
        ),
        (
            "keeps-admin",
            At("drop_capabilities", "~(1u << CAP_SYS_ADMIN | 1u << CAP_SETPCAP)"),
            "~(1u << CAP_SETPCAP)",
            "root's command may mount",
        ),
        (
            "unlimited",
            At("main", "if (limited && limit_check() != 0)"),
            "if (!limited && limit_check() != 0)",
            "a check has all system calls",
        ),
        (
            "endless-processes",
            At("limit_processes", "write(setting, most, strlen(most)) < 0"),
            "write(setting, most, 0) < 0",
            "root's check makes as many processes as the host has",
        ),
    ),
    *checks(
        "harness/guard/veil.c",
        (
            "no-veil",
            At("veil_one", 'mount("host", ".", "overlay", flags, LAYERS) != 0'),
            "flags != 0",
            "a check reaches the host's sockets that are made later",
        ),
        (
            "veils-no-mount-below",
            At("veil", "is_next_below(which, folder) && veil(mounts[which]) != 0"),
            "is_next_below(which, folder) && errno == -1",
            "a check reaches sockets in what is shown of an empty place",
        ),
        (
            "loses-what-is-mounted",
            At("veil_one", 'syscall(SYS_move_mount, trees[which], "", AT_FDCWD, mounts[which],'),
            'syscall(SYS_move_mount, trees[which], "", AT_FDCWD, "/dev/null/none",',
            "an overlay hides the state from its check",
        ),
    ),
    *checks(
        "harness/guard/limits.c",
        (
            "unshare",
            At("", "NEVER(unshare), \\"),
            "\\",
            "a check makes namespaces",
        ),
        (
            "clone",
            At("", "NEW_NAMESPACES, 0, 1), \\"),
            "0, 0, 1), \\",
            "a check makes a child in a namespace",
        ),
    ),
    *checks(
        f"{_P}/sandbox/check.py",
        (
            "no-list",
            At("_sockets", "name and name[0].startswith('/')"),
            "name and name[0].startswith('@')",
            "no socket of the host is known",
        ),
        (
            "all-are-its-own",
            At("guarded", "kept is None or not path.is_relative_to(kept)"),
            "kept is None",
            "a captured folder's check reaches nothing outside of it",
        ),
        (
            "endless-memory",
            At("_room", "min(part, MEMORY_MAX)"),
            "max(part, 1 << 40)",
            "files in memory have no limit",
        ),
    ),
)
