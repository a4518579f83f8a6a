# SPDX-License-Identifier: Apache-2.0
"""Many workers of a real Dask scheduler in one process, whose trials cost nothing.

    python simulated_workers.py COUNT TEMPLATES

Each answers for any trial with what one trial of its cell came to (`Templates`), and its own seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from distributed import Worker

from powercut.cluster import node, task
from powercut.cluster.engine import Address
from powercut.cluster.local import begin, start_node
from powercut.cluster.node import Node
from powercut.rig.run_id import run_id_of
from powercut.store.binding import binding_of
from powercut.store.layout import folder_name

SECONDS = 0.08
"""What each trial is said to take, so that a task has 125 of them."""


class Templates:
    """What one trial of each cell and control came to; `note` is for a `ClusterHere.before`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._hello: dict[str, Any] = {}
        self._done: dict[str, Any] = {}

    def note(self, kind: str, body: Any) -> Any:
        if kind == "hello":
            self._hello = body
        elif kind == "done":
            self._done[body["folder"].split("/", 3)[3].rpartition("/")[0]] = body
        self._path.write_text(json.dumps([self._hello, self._done]))
        return body

    def read(self) -> Templates:
        self._hello, self._done = json.loads(self._path.read_text())
        return self

    def answer(self, folder: str, call: str, text: str) -> str:
        if call == "hello":
            return json.dumps(self._hello)
        orders = json.loads(text)["orders"]
        made = [self._made(folder, order) for order in orders]
        return json.dumps({"answers": made})

    def _made(self, folder: str, order: Any) -> Any:
        part = "cells" if order["control"] is None else "controls"
        cell = next(
            name
            for name in self._done
            if name.startswith(f"{part}/") and name.endswith(f"/{folder_name(order['name'])}")
        )
        done = self._done[cell]
        files, seed = dict(done["files"]), order["trial"]["seed"]
        trial = json.loads(files["trial.json"])
        trial |= {name: order[name] for name in ("parameters", "trial", "scenario_sha256")}
        trial["run_id"] = run_id_of(seed).hex()
        text = files["trial.json"] = json.dumps(trial)
        manifest = json.loads(files["manifest.json"])
        for entry in manifest["files"]:
            if entry["name"] == "trial.json":
                sha256 = hashlib.sha256(text.encode()).hexdigest()
                entry |= {"size": len(text), "sha256": sha256}
        files["manifest.json"] = json.dumps(manifest)
        place = f"{cell}/{order['trial']['number']:04d}"
        verdict = json.loads(files["verdict.json"])
        verdict |= {"trial": order["trial"]["number"], "seed": seed, "result_directory": place}
        verdict["binding"] = binding_of(trial).name
        files["verdict.json"] = json.dumps(verdict)
        return {**done, "files": files, "folder": f"{folder}/{place}", "seconds": SECONDS}


class _Simulated:
    """What `powercut.cluster.task` calls here."""

    def __init__(self, templates: Templates) -> None:
        self._templates = templates
        self._folder = ""

    def perform(self, call: str, text: str) -> str:
        from distributed import get_worker

        if call == "hello":
            self._folder = json.loads(text)["opening"]["folder"]
        name = folder_name(str(get_worker().name))
        return self._templates.answer(f"{self._folder}/{name}", call, text)


async def _serve(count: int, told: Node) -> None:
    common = {"security": told.pem.security(), "dashboard": False, "memory_limit": 0}
    there = {"protocol": "tls://", "host": "127.0.0.1"}
    made = [
        Worker(told.scheduler, name=f"w{number:03d}", nthreads=1, **there, **common)
        for number in range(count)
    ]
    await asyncio.gather(*made)
    sys.stdout.write(json.dumps({"address": told.scheduler}) + "\n")
    sys.stdout.flush()
    await asyncio.gather(*(one.finished() for one in made))


@contextlib.contextmanager
def simulated(address: Address, count: int, templates: Path, folder: Path) -> Iterator[int]:
    """`count` workers; gives their process."""
    scheduler = f"tls://{address.host}:{address.port}"
    with start_node(folder, [__file__, str(count), str(templates)]) as process:
        begin(process, Node(pem=address.pem, scheduler=scheduler))
        yield process.pid


def main() -> None:
    count, templates = sys.argv[1:]
    task.perform = _Simulated(Templates(Path(templates)).read()).perform
    node._serve = lambda told: _serve(int(count), told)
    node.main()


if __name__ == "__main__":
    main()
