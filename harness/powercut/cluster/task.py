# SPDX-License-Identifier: Apache-2.0
"""What the engine calls on a worker: text in, text out.

The engine names this function to a worker by its module and name, so this module imports nothing
that a dispatcher (powercut.cluster.dispatcher) does not need.
"""

from __future__ import annotations


def perform(call: str, text: str) -> str:
    """Does what `call` names (powercut.cluster.host); what goes wrong is in the answer."""
    from distributed import get_worker  # noqa: PLC0415  on a worker it is there

    from powercut.cluster.host import answer  # noqa: PLC0415  a dispatcher has none of it

    worker = get_worker()
    return answer(call, text, str(worker.name), worker.state.nthreads)
