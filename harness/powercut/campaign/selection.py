# SPDX-License-Identifier: Apache-2.0
"""What of a scenario is to be run, and how many trials that takes.

It plans and runs nothing, and imports little: `run --dry-run` needs nothing else of a campaign.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from powercut.campaign.confidence import Aim, planned_for
from powercut.scenario.load import Scenario, expand
from powercut.scenario.plan import Plan
from powercut.store.results import wanted_verdict
from powercut.trial.controls import controls_for, same_run


@dataclass(frozen=True)
class Selection:
    """What of a scenario is run: besides its text and seed, all that decides the plan."""

    only: tuple[str, ...] = ()
    trials: int | None = None
    aim: Aim | None = None

    def plan(self, scenario: Scenario, seed: int) -> Plan:
        """The plan of it.  Raises UsageError if `only` selects nothing."""
        plan = expand(scenario, seed=seed, trials=self.trials, only=self.only)
        return plan if self.aim is None else planned_for(plan, self.aim)

    @property
    def options(self) -> list[str]:
        """The options of the command line that ask for the same number of cuts."""
        if self.aim is not None:
            return self.aim.options
        return [] if self.trials is None else ["--trials", str(self.trials)]

    def as_json(self) -> dict[str, Any]:
        """For environment.json."""
        aim = None if self.aim is None else [self.aim.confidence, self.aim.at_most]
        return {"only": list(self.only), "trials": self.trials, "aim": aim}

    @staticmethod
    def of_json(value: Any) -> Selection:
        """The same from environment.json.  Raises ValueError, KeyError or TypeError."""
        aim = value["aim"]
        return Selection(
            tuple(str(name) for name in value["only"]),
            None if value["trials"] is None else int(value["trials"]),
            None if aim is None else Aim(float(aim[0]), float(aim[1])),
        )


def trials_of(plan: Plan) -> int:
    """How many trials `plan` takes, controls included, if all turns out as expected."""
    controls = {
        same_run(control.parameters)
        for cell in plan.cells
        for control in controls_for(cell.parameters, wanted_verdict(cell.expect))
    }
    own = {same_run(cell.parameters) for cell in plan.cells}
    return plan.trials + len(controls - own)
