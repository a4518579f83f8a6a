# SPDX-License-Identifier: Apache-2.0
"""What clusters here share: a client that puts one number after the other, and a check that
asks until all nodes give the same.
"""

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, Protocol

NODES = dict(one.split("=") for one in os.environ.get("POWERCUT_NODES", "").split())
ADDRESS = os.environ.get("POWERCUT_ADDRESS", "")
START_S = 40.0
AGREE_S = 10.0
_POLL_S = 0.02


class Cluster(Protocol):
    """A system with several nodes; whatever it cannot do yet is an OSError."""

    def setup(self, folder: str, node: str) -> None:
        """Makes a node's folder ready."""

    def serve(self, folder: str, node: str) -> None:
        """Becomes that node's server."""

    def begin(self, address: str) -> None:
        """Makes what a new cluster has to have; returns once it has it."""

    def leads(self, address: str) -> None:
        """Returns if that node answers, and the cluster has a leader."""

    def put(self, address: str, number: int) -> None:
        """Returns once `number` is acknowledged by that node."""

    def numbers(self, address: str) -> Iterable[int]:
        """What that node gives, of itself alone."""


class AnswerError(OSError):
    """A node has answered, and what it says is an error."""


class Connections:
    """One to each node, as `opened` makes it, which lasts until it fails."""

    def __init__(self, opened: Callable[[str], Any]) -> None:
        self._opened, self._kept = opened, {}

    def call(self, address: str, request: Callable[[Any], Any]) -> Any:
        """What the `request` comes to on the connection to that node."""
        try:
            if address not in self._kept:
                self._kept[address] = self._opened(address)
            return request(self._kept[address])
        except AnswerError:
            raise
        except OSError:
            self._kept.pop(address, None)
            raise


def settings(**usual: str) -> dict[str, str]:
    """Those of the command line, NAME=VALUE, by default `usual`; they are taken from it."""
    given = [word for word in sys.argv[1:] if word.partition("=")[0] in usual and "=" in word]
    sys.argv = [word for word in sys.argv if word not in given]
    return usual | dict(word.split("=", 1) for word in given)


def say(line: str) -> None:
    os.write(int(os.environ["POWERCUT_FD"]), f"{line}\n".encode())


def _wait(done: Callable[[str], None], nodes: Iterable[str] = NODES) -> None:
    """Until it is `done` by one of the nodes."""
    end = time.monotonic() + START_S
    why = "none answers"
    while time.monotonic() < end:
        for node in nodes:
            try:
                return done(NODES[node])
            except OSError as error:
                why = str(error)
        time.sleep(_POLL_S)
    sys.exit(f"no leader within {START_S:g} s: {why}")


def _put(cluster: Cluster, number: int) -> bool:
    """On whichever node takes it."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        for address in NODES.values():
            try:
                cluster.put(address, number)
            except OSError:
                continue
            return True
        time.sleep(_POLL_S)
    return False


def _run(cluster: Cluster) -> None:
    _wait(cluster.begin)
    _wait(cluster.leads)
    say("ready")
    number = 0
    while True:
        number += 1
        say(f"? {number}")
        say(f"{'+' if _put(cluster, number) else '-'} {number}")


def _asked(cluster: Cluster, nodes: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """What each of the nodes gives that answers."""
    found = {}
    for name in nodes:
        try:
            found[name] = tuple(sorted(cluster.numbers(NODES[name])))
        except OSError:
            continue
    return found


def _check(cluster: Cluster, nodes: Collection[str]) -> None:
    _wait(cluster.leads, nodes)
    end = time.monotonic() + AGREE_S
    while True:
        found = _asked(cluster, nodes)
        if len(found) == len(nodes) and len(set(found.values())) == 1:
            break
        if time.monotonic() > end:
            told = "; ".join(f"{name} gives {len(one)}" for name, one in sorted(found.items()))
            if len(found) < len(nodes):
                sys.exit(f"not all nodes answer: {told}")
            say(f"bad the nodes do not agree after {AGREE_S:g} s: {told}")
            break
        time.sleep(_POLL_S)
    for number in sorted({number for one in found.values() for number in one}):
        say(f"= {number}")


def main(cluster: Cluster, asked: Collection[str] = NODES) -> None:
    """Does what the command line asks for; the check asks those nodes."""
    verb, folder, *node = sys.argv[1:]
    if verb == "setup":
        cluster.setup(folder, *node)
    elif verb == "node":
        cluster.serve(folder, *node)
    elif verb == "run":
        _run(cluster)
    else:
        _check(cluster, asked)
