#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breezy: repository.fdatasync is on, and a commit does not sync what leads to the new revision.

`last-revision` and `pack-names` are written to a temporary file each, which is renamed; neither the
file nor the folder is synced.  A power cut may leave the old file, or an empty one.  The twin has
them as a sync would leave them."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile

try:
    print("Breezy", importlib.metadata.version("breezy"))
except importlib.metadata.PackageNotFoundError:
    print("Breezy is not installed: pip install breezy==3.3.23")
    sys.exit(77)


def brz(*words, check=True):
    environment = {**os.environ, "BRZ_HOME": top, "BRZ_EMAIL": "a <a@localhost>"}
    command = [sys.executable, "-m", "breezy", *words]
    return subprocess.run(command, check=check, capture_output=True, text=True, env=environment)


def after_the_cut(name, last_revision):
    after = f"{top}/{name}"
    shutil.copytree(branch, after)
    if last_revision is not None:
        with open(f"{after}/.bzr/branch/last-revision", "wb") as file:
            file.write(last_revision)
    said = brz("revno", after, check=False)
    found = said.stdout.strip() or said.stderr.strip().splitlines()[0]
    print(f"{name}: {found} (2 revisions were acknowledged)")
    return found


top = tempfile.mkdtemp()
branch = f"{top}/branch"
brz("init", branch)
for message in "12":
    with open(f"{branch}/.bzr/branch/last-revision", "rb") as last:
        before = last.read()
    brz("commit", "--unchanged", "-m", message, branch)  # status 0: acknowledged
# cut here
assert after_the_cut("rename-synced", None) == "2"
lost = after_the_cut("rename-not-synced", before) != "2"
lost |= after_the_cut("file-not-synced", b"") != "2"
shutil.rmtree(top)
sys.exit(1 if lost else 0)
