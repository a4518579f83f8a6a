# SPDX-License-Identifier: Apache-2.0
"""Runs pytest again and again without starting Python anew.

A child process has imported everything that tests need and is not powercut's own; for each run
it forks, and the fork imports the tree as it is then.
"""

from __future__ import annotations

import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Final

TIMED_OUT: Final = -signal.SIGALRM
_RUN_S: Final = 600
_DATA_MAX: Final = 4 << 30
"""Bytes of a process: a loop that a mutant keeps from ending fills no memory."""


class Nursery:
    """The child process; `run` gives it work."""

    def __init__(self, tree: Path, build: Path) -> None:
        self._said = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115
        environment = os.environ | {"POWERCUT_BUILD": str(build)}
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(tree / "harness")],
            cwd=tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
        )

    def run(self, argv: list[str], limit_s: float) -> int:
        """The status that pytest ends with; below 0 the signal that ended it, which is that of an
        alarm after so many seconds.  What it has left running ends with it."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        self._said.seek(0)
        self._said.truncate()
        process.stdin.write(json.dumps([math.ceil(limit_s), *argv]) + "\n")
        process.stdin.flush()
        answer = process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the tests cannot be run: {self.said()}")
        return int(answer)

    def said(self) -> str:
        """The last of what the last run printed."""
        self._said.seek(0)
        return self._said.read()[-4000:]

    def close(self) -> None:
        """Ends the child process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._said.close()


def _serve(harness: str) -> None:
    import jinja2  # noqa: F401
    import numpy  # noqa: F401
    import pydantic  # noqa: F401
    import pytest
    import rich.console  # noqa: F401

    sys.path.insert(0, harness)
    answers = os.dup(1)
    os.dup2(2, 1)  # what tests print goes to the log
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            limit_s, *argv = json.loads(line)
            signal.alarm(min(limit_s, _RUN_S))
            resource.setrlimit(resource.RLIMIT_DATA, (_DATA_MAX, _DATA_MAX))
            status = 3
            try:
                status = int(pytest.main(argv))
            except BaseException:  # whatever it is, this process must not go on as its parent
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.write(answers, f"{status}\n".encode())


if __name__ == "__main__":
    _serve(sys.argv[1])
