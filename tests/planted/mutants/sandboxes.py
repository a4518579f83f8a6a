# SPDX-License-Identifier: Apache-2.0
"""Planted in what keeps checks from the host."""

from __future__ import annotations

from mutants.mutant import Mutant, planter
from mutants.place import At
from mutants.suites import ARCHIVES, BOOTS, CHECKS, HOSTILE, KERNELS, MACHINE, OWN, TOOLS

checks = planter("sandbox", CHECKS)
archives = planter("archive", ARCHIVES)
kernels = planter("kernel", KERNELS)
hostile = planter("uml", HOSTILE)
own = planter("own", OWN)
tools = planter("tool", TOOLS)
machine = planter("machine", MACHINE)
boots = planter("uml-machine", BOOTS)

_P = "harness/powercut"

MUTANTS: tuple[Mutant, ...] = (
    *machine(
        "harness/guard/check.c",
        (
            "no-card",
            At("make_machine", "wanted.mac != NULL && machine_card(wanted.mac) != 0"),
            "wanted.mac != NULL && wanted.first_pid < 0",
            "each process of a check draws a number in place of a network card's",
        ),
        (
            "pids-of-the-run",
            At("make_machine", "machine_pids(proc, wanted.first_pid) != 0"),
            "wanted.first_pid < 0",
            "a process of the check has the pid of a lock from before the cut",
        ),
        (
            "devices-hold-values",
            At("make_view", '!wanted.bare && make_read_only("/dev") != 0'),
            'wanted.bare && make_read_only("/dev") != 0',
            "values among the devices are in no state, and SAFE",
        ),
    ),
    *machine(
        "harness/guard/same_machine.c",
        (
            "host-s-machine-id",
            At("machine_files", "show(root, MACHINE_ID, id, false, kept) != 0"),
            "id == NULL",
            "a check on another host sees that host's machine-id",
        ),
        (
            "name-of-no-address",
            At("machine_files", 'show(root, "/etc/hosts", "127.0.1.1 " MACHINE_NAME, true, kept)'),
            "0",
            "the name of the host leads to no address",
        ),
    ),
    *machine(
        f"{_P}/model/machine_identity.py",
        (
            "one-level-of-checks",
            At("MachineIdentity.boot_for", "level % _LEVELS * _LEVEL_PIDS"),
            "0",
            "a check that was cut itself has left the pid of the next one",
        ),
        (
            "one-machine-for-all",
            At("MachineIdentity._drawn", "f'{self.seed}/{what}'"),
            "f'{what}'",
            "all recordings are of one machine",
        ),
    ),
    *boots(
        "guests/uml/root.c",
        (
            "no-card",
            At("make_machine", "machine_card(plan.mac) != 0"),
            "plan.mac == NULL",
            "a program in User-Mode Linux has no network card",
        ),
        (
            "pids-of-the-run",
            At("make_machine", "machine_pids(proc, plan.first_pid) != 0"),
            "plan.first_pid < 0",
            "pids in User-Mode Linux are those of the run",
        ),
        (
            "first-machine-stays",
            At("root_setup", "return make_machine();"),
            "return 0;",
            "a guest that is lent keeps the machine of another recording",
        ),
    ),
    *hostile(
        "guests/uml/confine.c",
        (
            "mounts",
            At("", "CAP_LINUX_IMMUTABLE, CAP_AUDIT_WRITE,"),
            "CAP_LINUX_IMMUTABLE, CAP_AUDIT_WRITE, CAP_SYS_ADMIN,",
            "a program in User-Mode Linux mounts the host's files",
        ),
        (
            "changes-its-root",
            At("", "CAP_IPC_LOCK,"),
            "CAP_IPC_LOCK, CAP_SYS_CHROOT,",
            "a program in User-Mode Linux changes its root",
        ),
        (
            "loads-modules",
            At("", "CAP_SETFCAP,"),
            "CAP_SETFCAP, CAP_SYS_MODULE,",
            "a program in User-Mode Linux gives its kernel a module",
        ),
        (
            "makes-devices",
            At("", "CAP_IPC_OWNER,"),
            "CAP_IPC_OWNER, CAP_MKNOD,",
            "a program in User-Mode Linux makes devices",
        ),
    ),
    *tools(
        "harness/guard/check.c",
        (
            "talks",
            At("limit_alone", "(!sockets && limit_sockets() != 0)"),
            "(sockets && limit_sockets() != 0)",
            "behind Landlock a tool of root's is root to the peers of the host's sockets",
        ),
        (
            "asks-all",
            At("limit_alone", "if (limit_check() != 0 ||"),
            "if (!program ||",
            "behind Landlock a tool has all system calls",
        ),
    ),
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
            "taken-for-whole",
            At("make_view", "whole = !alone"),
            "whole = 1",
            "beside a mount of somebody else's the files of a state are nobody's",
        ),
        (
            "traceable",
            At("reap", "PR_SET_DUMPABLE, 0"),
            "PR_SET_DUMPABLE, 1",
            "a check traces PID 1, behind which no socket is covered",
        ),
        (
            "keeps-admin",
            At("drop_capabilities", "~GUARDS"),
            "~(GUARDS & ~(1u << CAP_SYS_ADMIN))",
            "root's command may mount",
        ),
        (
            "unlimited",
            At("limit_program", "if (!wanted.unlimited && limit_check() != 0)"),
            "if (wanted.unlimited && limit_check() != 0)",
            "a check has all system calls",
        ),
        (
            "endless-processes",
            At("limit_processes", 'dprintf(setting, "%d", most) < 0'),
            'write(setting, "", (size_t)most * 0) < 0',
            "root's check makes as many processes as the host has",
        ),
        (
            "stays-root",
            At("drop_capabilities", "if (apart && setns(wanted.users, CLONE_NEWUSER) != 0)"),
            "if (apart && wanted.users < 0)",
            "to the host root's check is root",
        ),
    ),
    *checks(
        "harness/guard/check.c",
        (
            "processes-stay",
            At("run_state", "CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET"),
            "CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWNET",
            "a daemon of one state answers for the next",
        ),
        (
            "memory-stays",
            At("run_state", "CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWNET"),
            "CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET",
            "shared memory of one state vouches for the next",
        ),
    ),
    *checks(
        "harness/guard/states.c",
        (
            "files-stay",
            At(
                "states_view",
                'mount("none", states->empty[index], "tmpfs", MS_NOSUID | MS_NODEV, memory) != 0',
            ),
            "memory[0] == '\\0'",
            "a copy of one state in /tmp vouches for the next",
        ),
        (
            "states-are-seen",
            At("states_view", "take_away() != 0"),
            "memory[0] == '\\0' && take_away() != 0",
            "a check reads, and writes, the states that are checked beside its own",
        ),
        (
            "settings-may-be-written",
            At("states_view", "trees[index] >= 0 && lay(trees[index], states->over[index]) != 0"),
            "trees[index] >= 0 && states->over[index] == NULL",
            "root's check writes the host's settings, and sees the boot of the host",
        ),
        (
            "mounts-later",
            At("states_next", "is_changed(states)"),
            "states->mounts < 0 && is_changed(states)",
            "what the host mounts meanwhile is no part of what a check sees",
        ),
    ),
    *checks(
        f"{_P}/recover/native/folder.py",
        (
            "one-boot-for-all",
            At("_Guard.ask", "booted_again(self._boot_id)"),
            "self._boot_id.touch()",
            "the machine has not booted between two states",
        ),
        (
            "sockets-of-the-first-state",
            At("FolderSandbox._guard", "free.sockets >= sockets"),
            "free.sockets is not None",
            "a check reaches a socket that was made while the sandbox lasts",
        ),
    ),
    *checks(
        "harness/guard/users.c",
        (
            "owns-nothing",
            At("users_own", "!only_tried"),
            "only_tried",
            "root's check may not write to its own state",
        ),
        (
            "root-is-root",
            At("", '"0 2147418112 2147483648\\n"'),
            '"0 0 2147483648\\n"',
            "root of a namespace is the host's",
        ),
    ),
    *checks(
        "harness/guard/veil.c",
        (
            "veils-what-may-be-written",
            At("veil", "if ((view.f_flag & ST_RDONLY) != 0)"),
            "if ((view.f_flag & ST_RDONLY) == 0)",
            "a check reaches the host's sockets, and may not write its state",
        ),
        (
            "veils-three-names",
            At("veil_host", "strcmp(path, kept[which]) == 0"),
            "strcmp(path, kept[which]) != 0",
            "sockets below /var are reached",
        ),
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
            At("seen_sockets", "one[0] != _CONNECTED"),
            "one[0] == _CONNECTED",
            "no socket of the host is known",
        ),
        (
            "all-are-its-own",
            At("_seen", "kept is None or not path.is_relative_to(kept)"),
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
    *checks(
        "harness/guard/limits.c",
        (
            "families",
            At("", "REFUSE(EAFNOSUPPORT), \\"),
            "ALLOW, \\",
            "a check talks to the machine below a virtual one",
        ),
        (
            "32-bit",
            At("", "NEVER_32(310), /* unshare */"),
            "",
            "a 32-bit check makes namespaces",
        ),
    ),
    *kernels(
        f"{_P}/sandbox/users.py",
        (
            "keeps-capabilities",
            At(
                "lowered",
                "[_GUARD, '--bare', *([] if limited else ['--unlimited']), '--become', '0', *words, '--']",
            ),
            "[_GUARD, '--bare', *([] if limited else ['--unlimited']), *words, '--']",
            "root's kernel has capabilities in its sandbox",
        ),
    ),
    *kernels(
        f"{_P}/sandbox/kernel.py",
        (
            "sees-tmp",
            At("_bubblewrap", "place.is_dir()"),
            "place.is_file()",
            "a kernel's process sees /tmp and /run of the host",
        ),
        (
            "endless-memory",
            At("_bubblewrap", "size if place == IN_MEMORY else _EMPTY_BYTES"),
            "1 << 40",
            "a kernel's process fills the host's memory with files",
        ),
        (
            "shows-nothing",
            At("_bubblewrap", "path != one and path.is_relative_to(one)"),
            "path == one",
            "a program that lies in /tmp is not there",
        ),
        (
            "writes-host",
            At(
                "_bubblewrap",
                "('--ro-bind', '/', '/', '--dev', '/dev', '--proc', '/proc', *users.options)",
            ),
            "('--bind', '/', '/', '--dev', '/dev', '--proc', '/proc', *users.options)",
            "a kernel's process writes the host's files",
        ),
        (
            "fills-all",
            At("_landlock", "('--fill', str(folder), '--')"),
            "('--fill', str(folder.parent), '--')",
            "behind Landlock a kernel's process fills what is beside its folder",
        ),
    ),
    *own(
        f"{_P}/store/own.py",
        (
            "group-knows",
            At("_read", "status.st_mode & 0o077"),
            "status.st_mode & 0o007",
            "a key that a group reads is believed",
        ),
        (
            "anothers-key",
            At("_read", "not private or status.st_uid != os.geteuid()"),
            "not private",
            "root believes the key of another user",
        ),
        (
            "short-key",
            At("_read", "len(key) == _KEY_BYTES"),
            "key",
            "a key of one byte is one",
        ),
        (
            "any-recording",
            At("_mac", "_PURPOSE + manifest"),
            "_PURPOSE",
            "a mark fits every recording",
        ),
        (
            "key-made-by-asking",
            At("is_marked", "_key(make=False)"),
            "_key(make=True)",
            "to ask makes a key",
        ),
        (
            "never-kept",
            At("mark", "not key"),
            "True",
            "no later process knows what this user has recorded",
        ),
    ),
    *own(
        f"{_P}/store/manifest.py",
        (
            "record-unchecked",
            At("is_own", "check(folder, only=(name,))"),
            "None",
            "the commands of an own recording may be changed",
        ),
    ),
    *own(
        f"{_P}/recording/consent.py",
        (
            "always",
            At("require_consent_to", "is_own(folder, record)"),
            "True",
            "a stranger's command is run",
        ),
        (
            "for-good",
            At("run_checks", "_Consent.given = before"),
            "_Consent.given = True",
            "who has said so once has said so for all",
        ),
        (
            "no-hypervisors",
            At("commands_of", "choice is not None and is_path(choice)"),
            "choice is not None and (not is_path(choice))",
            "a hypervisor that a recording names is run",
        ),
    ),
    *archives(
        f"{_P}/sandbox/archive_inside.py",
        (
            "endless-header",
            At("_Member._proc_member", "self.size > _HEADER_MAX"),
            "self.size > 1 << 60",
            "a header of 3 GiB is read into memory",
        ),
        (
            "headers-in-headers",
            At("_Member._proc_member", "reader.headers > _HEADERS_MAX"),
            "reader.headers > 1 << 30",
            "headers about headers are followed by recursion",
        ),
        (
            "old-sparse",
            At("_Member._proc_member", "self.type == tarfile.GNUTYPE_SPARSE"),
            "False",
            "a map of holes is followed to its end",
        ),
        (
            "endless-members",
            At("Bounds.admit", "self._members > self._limits.members"),
            "self._members > 1 << 40",
            "an archive has members without end",
        ),
        (
            "endless-bytes",
            At("Bounds.admit", "member.size < 0 or self._size > self._limits.size"),
            "member.size < 0",
            "members have bytes without end",
        ),
        (
            "endless-depth",
            At("Bounds.admit", "name.count('/') > self._limits.depth"),
            "name.count('/') > 1 << 40",
            "folders lie within folders without end",
        ),
        (
            "endless-time",
            At("BoundedTar.next", "self._seconds > self._limits.header_s"),
            "self._seconds < 0",
            "headers take processor time without end",
        ),
        (
            "end-unread",
            At("_Expanding.finish", "self._size < end and self.read(_CHUNK)"),
            "False",
            "a compressed archive whose checksum is wrong is believed",
        ),
    ),
    *archives(
        f"{_P}/sandbox/archive.py",
        (
            "index-counted-once",
            At("Archive.next", "self._bounds.admit(member)"),
            "None",
            "a reader that was taken over has members without end",
        ),
        (
            "index-beyond-the-file",
            At("Archive.next", "not 0 <= member.offset_data <= self._size - member.size"),
            "False",
            "a reader that was taken over names bytes that its archive does not have",
        ),
    ),
)
