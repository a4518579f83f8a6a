#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""ostree commit, with fsync (the default)."""

import os
import subprocess

import adapter


class Store:
    damaged = (subprocess.CalledProcessError,)

    def __init__(self, folder: str) -> None:
        self._repository, self._tree = f"{folder}/repo", f"{folder}/tree"
        if not os.path.exists(f"{self._repository}/config"):
            os.makedirs(self._tree)
            self._ostree("init", "--mode=bare-user-only")

    def _ostree(self, verb: str, *words: str) -> str:
        command = ["ostree", f"--repo={self._repository}", verb, *words]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout

    def put(self, number: int, value: bytes) -> None:
        with open(f"{self._tree}/value", "wb") as file:
            file.write(value)
        said = f"--body={value.decode()}"
        self._ostree("commit", "-b", "main", "-s", str(number), said, f"--tree=dir={self._tree}")

    def read(self) -> dict[int, bytes]:
        found: dict[int, bytes] = {}
        lines = iter(self._ostree("log", "main").splitlines())
        for line in lines:
            if line.startswith("    ") and line.strip().isdigit():
                number, _ = int(line), next(lines)
                found[number] = next(lines).strip().encode()
        return found


adapter.main(Store)
