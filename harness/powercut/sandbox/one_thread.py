# SPDX-License-Identifier: Apache-2.0
"""The one thread that starts what is to end with this process.

The kernel sends a parent-death signal (prctl(2), PR_SET_PDEATHSIG; bubblewrap's --die-with-parent)
when the *thread* that made the child ends.  So the children that have one are made by one thread,
which lives as long as the interpreter.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
_lock = threading.Lock()
_spawners: dict[int, ThreadPoolExecutor] = {}  # by process: a fork does not inherit the thread


def in_lasting_thread(start: Callable[[], T]) -> T:
    """What `start` returns, or raises, called in that thread."""
    with _lock:
        spawner = _spawners.setdefault(
            os.getpid(), ThreadPoolExecutor(max_workers=1, thread_name_prefix="spawner")
        )
    return spawner.submit(start).result()
