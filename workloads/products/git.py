#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Git with core.fsync=all: git commit; tend=pack|none (pack-refs)."""

import os
import subprocess

import adapter

SETTINGS = adapter.settings(fsync="all", tend="none")


class Store:
    damaged = (subprocess.CalledProcessError,)

    def __init__(self, folder: str) -> None:
        self._folder = f"{folder}/store"
        if not os.path.exists(f"{self._folder}/.git"):
            self._git("init", "-q", "-b", "main", self._folder)

    def _git(self, *words: str, text: bytes = b"") -> bytes:
        options = [f"core.fsync={SETTINGS['fsync']}", "user.name=n", "user.email=e@localhost"]
        named = [word for option in options for word in ("-c", option)]
        command = ["git", "-C", self._folder if words[0] != "init" else "/", *named, *words]
        return subprocess.run(command, input=text, stdout=subprocess.PIPE, check=True).stdout

    def put(self, number: int, value: bytes) -> None:
        message = b"%d %s" % (number, value)
        self._git("commit", "-q", "--allow-empty", "--no-gpg-sign", "-F", "-", text=message)
        if SETTINGS["tend"] == "pack" and number % adapter.TENDED_EACH == 0:
            self._git("pack-refs", "--all")

    def read(self) -> dict[int, bytes]:
        said = self._git("log", "--format=%B%x00")
        found = (one.strip().partition(b" ") for one in said.split(b"\0") if one.strip())
        return {int(number): value for number, _, value in found}


adapter.main(Store)
