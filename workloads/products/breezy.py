#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Breezy (bzr): commit, with repository.fdatasync on, as it is by default; sync=all is the twin."""

import os

import adapter

os.environ["BRZ_LOG"] = os.environ["BRZ_HOME"] = os.devnull
import breezy.bzr
import breezy.errors
from breezy.atomicfile import AtomicFile
from breezy.branch import Branch
from breezy.commit import NullCommitReporter
from breezy.controldir import ControlDir, format_registry

SETTINGS = adapter.settings(sync="")


def _synced(file: AtomicFile) -> None:
    """What AtomicFile.commit lacks: the new file is synced, and then the folder."""
    os.fsync(file._fd)
    WITHOUT(file)
    folder = os.open(os.path.dirname(file.realfilename), os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


WITHOUT = AtomicFile.commit
if SETTINGS["sync"] == "all":
    AtomicFile.commit = _synced
breezy.initialize()


class Store:
    damaged = (breezy.errors.BzrError, ValueError)  # of an empty last-revision

    def __init__(self, folder: str) -> None:
        path = f"{folder}/store"
        if not os.path.exists(path):
            os.mkdir(path)
            ControlDir.create_branch_convenience(path, format=format_registry.make_controldir("2a"))
        self._path = path

    def put(self, number: int, value: bytes) -> None:
        tree = ControlDir.open(self._path).open_workingtree()
        said = f"{number} {value.decode()}"
        tree.commit(said, committer="a <a@localhost>", reporter=NullCommitReporter())

    def read(self) -> dict[int, bytes]:
        branch = Branch.open(self._path)
        with branch.lock_read():
            ancestry = branch.repository.get_graph().iter_lefthand_ancestry(branch.last_revision())
            history = [one for one in ancestry if one != b"null:"]
            found = branch.repository.get_revisions(history)
        texts = (one.message.partition(" ") for one in found)
        return {int(number): value.encode() for number, _, value in texts}


adapter.main(Store)
