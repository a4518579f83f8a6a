#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Dulwich, Git in Python: porcelain.commit."""

import os

import adapter
from dulwich import porcelain
from dulwich.errors import NotGitRepository
from dulwich.repo import Repo

WHO = b"n <e@localhost>"


class Store:
    damaged = (NotGitRepository, KeyError, ValueError, AssertionError)

    def __init__(self, folder: str) -> None:
        path = f"{folder}/store"
        if not os.path.exists(path):
            os.mkdir(path)
            Repo.init(path)
        self._repo = Repo(path)

    def put(self, number: int, value: bytes) -> None:
        message = b"%d %s" % (number, value)
        porcelain.commit(self._repo, message=message, author=WHO, committer=WHO)

    def read(self) -> dict[int, bytes]:
        commits = [walked.commit.message for walked in self._repo.get_walker()]
        found = (message.partition(b" ") for message in commits)
        return {int(number): value for number, _, value in found}


adapter.main(Store)
