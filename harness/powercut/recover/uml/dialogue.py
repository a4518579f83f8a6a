# SPDX-License-Identifier: Apache-2.0
"""One question to PID 1 of a User-Mode Linux, and its answer.

The question lies in the memory that both share (powercut.recover.uml.share); a byte on the line
between them says that it is there, and one the other way that it is answered.  A guest that does
not answer in time is killed: nothing that it says later could be told from another answer.
"""

from __future__ import annotations

from powercut.recover.uml.boot import UmlProcess
from powercut.recover.uml.share import Answer, Share, Verb


class GuestDied(Exception):
    """The guest panicked or, if it `hung`, was killed; the text is its console."""

    def __init__(self, how: str, console: str, *, hung: bool = False) -> None:
        super().__init__(f"{how}\n{console}".strip())
        self.hung = hung


def ask(process: UmlProcess, share: Share, verb: Verb, deadline: float, **arguments: int) -> Answer:
    """The answer of the guest in `process`, which shares the memory `share`.

    Raises GuestDied; the process is killed by then.
    """
    share.ask(verb, **arguments)
    try:
        process.ring()
    except OSError:
        raise _died(process, "the guest's kernel ended") from None
    wait_ring(process, deadline, verb.name.lower())
    answer = share.answer()
    if answer is None:
        raise _died(process, "the guest answered another question")
    return answer


def wait_ring(process: UmlProcess, deadline: float, what: str) -> None:
    """Returns once the guest has answered to `what`.  Raises GuestDied, as `ask`."""
    rang = process.wait_ring(deadline)
    if rang is None:
        raise GuestDied(
            f"the guest's kernel hung: no answer to {what} in time", process.kill(), hung=True
        )
    if not rang:
        raise _died(process, "the guest's kernel ended")


def _died(process: UmlProcess, how: str) -> GuestDied:
    return GuestDied(how, process.kill())
