#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ostree commit with fsync: the rename that moves the branch to the new commit is not synced.

A power cut after `ostree commit` has returned may leave the reference as it was before the rename.
The same with the rename there, as a sync of its folder would have it, loses nothing."""

import os
import shutil
import subprocess
import sys
import tempfile

if shutil.which("ostree") is None:
    print("ostree is not installed: apt-get install ostree")
    sys.exit(77)


def ostree(*words):
    return subprocess.run(["ostree", *words], check=True, capture_output=True, text=True).stdout


def commit_after_the_cut(name, rename_is_there):
    after = f"{top}/{name}"
    shutil.copytree(repository, after, symlinks=True)
    if not rename_is_there:
        shutil.copy(f"{top}/reference-before", f"{after}/refs/heads/main")
    found = ostree(f"--repo={after}", "show", "main").split()[-1]
    print(f"{name}: the branch ends with commit {found} of 2 acknowledged ones")
    return found


top = tempfile.mkdtemp()
repository, tree = f"{top}/repository", f"{top}/tree"
print("ostree", ostree("--version").split("'")[1])
ostree(f"--repo={repository}", "init", "--mode=bare-user-only")
os.mkdir(tree)
for subject in "12":
    if os.path.exists(f"{repository}/refs/heads/main"):  # lost is the rename over this one
        shutil.copy(f"{repository}/refs/heads/main", f"{top}/reference-before")
    ostree(f"--repo={repository}", "commit", "-b", "main", "-s", subject, f"--tree=dir={tree}")
# cut here: status 0 was the acknowledgement
assert commit_after_the_cut("rename-synced", True) == "2"
lost = commit_after_the_cut("rename-not-synced", False) != "2"
shutil.rmtree(top)
sys.exit(1 if lost else 0)
