# SPDX-License-Identifier: Apache-2.0
"""The file system is recovered in User-Mode Linux, and the program's check runs on the host.

A check takes most of its time in User-Mode Linux for starting processes and for page faults.  Its
verdict depends on the files.  So the guest mounts and hands the files over, and the check runs in a
sandbox of namespaces on the host, on a copy of them in memory; a tree that was checked before is
not checked again.

Not the same as a check in the guest: the copy is on tmpfs, has no extended attributes but those
of "user.", belongs to one user, and its times are those of the copy.  So this decides only what is
not a loss, and a sample of it is checked in the guest as well: the first states, and one in 32.
Where the two differ the guest is right, and the host is not asked again.
"""
