#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Git, core.fsync=all: the rename that makes a commit the branch's last one is not synced.

A power cut after `git commit` has returned may leave the reference as it was before the rename.
The same with the rename there, as a sync of its folder would have it, loses nothing."""

import os
import shutil
import subprocess
import sys
import tempfile

if shutil.which("git") is None:
    print("git is not installed")
    sys.exit(77)
ENVIRONMENT = {"HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
OPTIONS = "-c core.fsync=all -c user.name=n -c user.email=e@localhost -c gc.auto=0".split()


def git(*words):
    command = ["git", *OPTIONS, *words]
    environment = {**os.environ, **ENVIRONMENT}
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return done.stdout


def commits_after_the_cut(name, rename_is_there):
    after = f"{top}/{name}"
    shutil.copytree(repository, after)
    if not rename_is_there:
        shutil.copy(f"{top}/reference-before", f"{after}/.git/refs/heads/main")
    found = git("-C", after, "log", "--format=%s", "main").split()
    print(f"{name}: the branch ends with commit {found[0]} of 2 acknowledged ones")
    return len(found)


top = tempfile.mkdtemp()
repository = f"{top}/repository"
print(git("version").strip())
git("init", "-q", "-b", "main", repository)
for message in "12":
    reference = f"{repository}/.git/refs/heads/main"
    if os.path.exists(reference):
        shutil.copy(reference, f"{top}/reference-before")  # lost is the rename over this one
    git("-C", repository, "commit", "-q", "--allow-empty", "-m", message)  # status 0: acknowledged
# cut here
assert commits_after_the_cut("rename-synced", True) == 2
lost = commits_after_the_cut("rename-not-synced", False) < 2
shutil.rmtree(top)
sys.exit(1 if lost else 0)
