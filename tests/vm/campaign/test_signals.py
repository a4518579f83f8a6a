# SPDX-License-Identifier: Apache-2.0
"""A signal ends every command that works long within seconds, and nothing of it goes on.

By default each is ended once while it is busiest.  The loop over instants is a campaign:
`pytest -m campaign tests/vm/campaign/test_signals.py`.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from marked_log import MarkedLog
from process_tree import descendants, has_ended, wait_until

from powercut.paths import EXAMPLES
from powercut.recover.uml.boot import unavailable
from powercut_extras.logs.checks import LogChecks
from powercut_extras.logs.imports import import_recording

pytestmark = [
    pytest.mark.vm,
    pytest.mark.fuse,
    pytest.mark.skipif(bool(unavailable()), reason="; ".join(unavailable())),
]

ENDS_S = 5.0
LONGEST_S = 20.0
ROUNDS = 50
PROGRAM = EXAMPLES / "append.sh"
LONG = "powercut: 1\nname: long\ncut: {trigger: {acks: 1000000}}\ndeadline: 1h\n"


@dataclass(frozen=True)
class Verb:
    """A command that works long, and a word of a process that it has when it is busiest."""

    words: tuple[str, ...]
    busy: str


VERBS = {
    "run": Verb(("run", "long.yaml"), "qemu-system"),
    "certify": Verb(("certify", "long.yaml", "--no-cost"), "qemu-system"),
    "record": Verb(
        ("record", "--budget", "100000", "--acks", "40", "--", str(PROGRAM)), "linux.uml"
    ),
    "try": Verb(("try", "--budget", "100000", "--acks", "40", "--", str(PROGRAM)), "linux.uml"),
    "capture": Verb(
        (
            *("capture", "folder", "--acks", "40", "--budget", "1h"),
            *("--check", f"{PROGRAM} check folder", "--", str(PROGRAM), "run", "folder"),
        ),
        "check-guard",
    ),
    "explore": Verb(("explore", "log/imported", "--budget", "1h"), "linux.uml"),
    "import": Verb(
        (
            *("import", "log/log", "--base", "log/base.img", "-o", "other"),
            *("--filesystem", "ext4", "--budget", "1h"),
        ),
        "linux.uml",
    ),
}


def ended(verb: Verb, folder: Path, number: signal.Signals, wait_s: float | None) -> float:
    """How long a command takes to end at a signal, after a time or when it is busiest; nothing
    that it had started may go on."""
    (folder / "long.yaml").write_text(LONG)
    (folder / "folder").mkdir()
    if "log" in " ".join(verb.words):
        log = MarkedLog(folder / "log").make()
        where = {"base": log.base, "output": log.folder / "imported"}
        import_recording(log.log, **where, checks=LogChecks())
    running = subprocess.Popen(
        [sys.executable, "-m", "powercut.cli.main", *verb.words],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        if wait_s is None:
            wait_until(lambda: [one for one in descendants(running.pid) if verb.busy in one[1]])
            time.sleep(1)  # it is at work now, and not only there
        else:
            time.sleep(wait_s)
        below = descendants(running.pid)
        running.send_signal(number)
        begun = time.monotonic()
        running.wait(timeout=60)
        took = time.monotonic() - begun
    finally:
        running.kill()
        running.wait(timeout=60)
    wait_until(lambda: all(has_ended(pid) for pid, _ in below), ENDS_S)
    return took


@pytest.mark.parametrize("name", VERBS)
def test_the_first_signal_ends_it(name: str, tmp_path: Path) -> None:
    number = signal.SIGTERM if name in ("try", "run") else signal.SIGINT
    assert ended(VERBS[name], tmp_path, number, None) < ENDS_S


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_at_any_instant(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    name = drawn.choice(sorted(VERBS))
    number = drawn.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
    assert ended(VERBS[name], tmp_path, number, drawn.uniform(0.2, LONGEST_S)) < ENDS_S
