# SPDX-License-Identifier: Apache-2.0
"""What `powercut --help` says of each command: a line, in the order in which one needs them."""

from __future__ import annotations

from typing import Final

SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Test a stack": {
        "try": "Tries whether your program keeps what it acknowledges",
        "run": "Runs scenarios: records, cuts the power, judges",
        "plan": "Shows what a run would do, without doing it",
        "record": "Tests your own program, without a virtual machine",
        "capture": "Tests any program on files that are recorded",
        "listen": "Listens to a workload anywhere, and judges it",
        "check-program": "Tries a program's setup, run and check without a cut",
        "mutate-syncs": "Tests a program without one of its syncs at a time",
        "certify": "Makes a certificate: which settings keep writes",
        "cost": "Measures requests and time of a durable commit",
        "probe": "Measures whether a folder's syncs can be true",
    },
    "Read results": {
        "show": "Explains a result: acknowledged, lost, and when",
        "serve": "Shows all results in a browser on this host",
        "history": "Shows what changed between runs and certificates",
        "certificate": "Shows a certificate, or verifies it",
        "verify": "Judges a result or a bundle again, from its evidence",
    },
    "Look into a recording": {
        "analyze": "Lists records acknowledged before they were durable",
        "audit": "Shows what each flush and FUA write protects",
        "explore": "Recovers other disks that a cut could have left",
        "minimize": "Finds the fewest lost writes that lose a record",
        "materialize": "Writes the disk of a crash state to an image file",
        "shell": "Boots a guest with a crash state mounted",
    },
    "Exchange recordings": {
        "bundle": "Packs a finding into one file",
        "unbundle": "Unpacks a bundle to look into its recording",
        "export": "Writes a recording as a dm-log-writes log",
        "fetch": "Fetches recordings that hosts of a fleet made",
        "import": "Reads a dm-log-writes or blklogwrites log",
    },
    "Set up": {
        "doctor": "Says what this host can do, and what to install",
        "hosts": "Examines the hosts of a fleet, and makes them ready",
        "cache": "Lists cached root file systems, or removes them",
        "init": "Writes a first scenario, a test and CI recipes here",
        "scenarios": "Lists the scenarios that are known by name",
        "presets": "Lists how products treat a flush by default",
        "test": "Runs pytest with powercut's plugin",
        "bench": "Measures powercut itself",
        "manual": "Writes manual pages",
    },
}
"""By section: commands and their lines, of at most 58 characters."""
