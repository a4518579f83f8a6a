# SPDX-License-Identifier: Apache-2.0
"""powercut as whoever has added the rows of a workload and of a machine runs it."""

from powercut.scenario.machines import MACHINES, MachineRow
from powercut.scenario.workloads import WORKLOADS, WorkloadRow

WORKLOADS["tally"] = WorkloadRow(
    "tally.settings:TallySettings", "tally.workload:TallyWorkload", ("tally.settings:refusals",)
)
MACHINES["tally"] = MachineRow("tally.machine:TallyBackend")

if __name__ == "__main__":
    from powercut.cli.main import main

    main()
