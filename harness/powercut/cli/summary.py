# SPDX-License-Identifier: Apache-2.0
"""What `powercut --help` says of each command: a line, in the order in which one needs them."""

from __future__ import annotations

from typing import Final

SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Test a stack": {
        "try": "Tries whether your program keeps what it acknowledges",
        "run": "Runs scenarios: records, cuts the power, judges",
        "record": "Tests your own program, without a virtual machine",
        "capture": "Tests any program on files that are recorded",
        "listen": "Listens to a workload anywhere, and judges it",
        "certify": "Makes a certificate: which settings keep writes",
        "probe": "Measures whether a folder's syncs can be true",
    },
    "Read results": {
        "show": "Explains a result, recording, bundle or certificate",
        "verify": "Judges one again, from its evidence",
        "serve": "Shows all results in a browser on this host",
        "history": "Shows what changed between runs and certificates",
    },
    "Look into a recording": {
        "audit": "Says which acks, flushes and syncs matter, and the cost",
        "explore": "Recovers other disks that a cut could have left",
        "minimize": "Finds the fewest lost writes that lose a record",
        "reproduce": "Writes a loss as a program for the store's maintainers",
        "shell": "Opens a prompt with a crash state mounted",
        "export": "Writes a bundle, a crash state or a log of requests",
        "import": "Reads a bundle or a log of another tool",
    },
    "Set up": {
        "doctor": "Says what this host can do, and what to install",
        "init": "Writes a first scenario, a test and CI recipes here",
        "list": "Lists scenarios, or presets of products",
        "test": "Runs pytest with powercut's plugin",
        "bench": "Measures powercut itself",
    },
}
"""By section: commands and their lines, of at most 58 characters."""
