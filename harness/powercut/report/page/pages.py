# SPDX-License-Identifier: Apache-2.0
"""The templates of all pages, and how they write figures."""

from __future__ import annotations

from functools import cache
from typing import Final

import jinja2

_OURS: Final = "powercut.report.page"


def page(name: str, package: str = _OURS) -> jinja2.Template:
    """The template called `name` of a package, which may include those that are here.

    Everything that it is given is escaped, and must be given.
    """
    return _environment(package).get_template(name)


def figure(value: float) -> str:
    """A figure with the digits that count."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 0.01 or not value else "under 0.01"


def ratio(value: float) -> str:
    """A ratio: measurements of time are not good for more than two digits."""
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"


def microseconds(value: float) -> str:
    """A time in microseconds, in a unit that reads well."""
    if value >= 1e6:
        return f"{value / 1e6:.1f} s"
    if value >= 1e3:
        return f"{value / 1e3:.3g} ms"
    return f"{value:.0f} µs"


@cache
def _environment(package: str) -> jinja2.Environment:
    packages = dict.fromkeys((package, _OURS))
    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(one) for one in packages]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = figure
    environment.filters["ratio"] = ratio
    environment.filters["us"] = microseconds
    return environment


# The words of reports and certificates, for a reader who meets them for the first time.

GLOSSARY: Final = (
    ("SAFE", "No acknowledged record was lost, and the controls prove that a loss would have "
     "been seen. It covers only what was tested."),
    ("SURVIVED", "No acknowledged record was lost in the cuts that were made, of a disk that was "
     "not recorded. Less than SAFE: what another cut may leave is not known."),
    ("LOSSY", "At least one record that had been acknowledged as durable was gone, or damaged, "
     "after the power cut and recovery."),
    ("INCONCLUSIVE", "Nothing can be said: a run failed, evidence is missing, or a control did "
     "not behave. Never a kind of SAFE."),
    ("not tested", "No run was made of this combination of settings."),
    ("cell", "One combination of settings."),
    ("acknowledged", "The workload told the world outside its machine that a record is durable, "
     "as a database does when it answers a COMMIT."),
    ("LSN", "Log sequence number: the number of a record, from 1."),
    ("flush", "A request that makes durable whatever completed before it was submitted."),
    ("FUA", "Force unit access: a write that completes only when it is durable."),
    ("completed, durable", "A write that the disk reports done is completed. It may still lie in "
     "the disk's volatile cache and vanish with the power; it is durable when it cannot."),
    ("power cut", "Everything volatile goes at once: the guest's memory, the hypervisor, and what "
     "the disk's cache had not been told to keep."),
    ("exposure", "The time during which an acknowledged record was not durable yet. A cut in "
     "that time may lose it, whether or not one came."),
    ("crash state", "One disk image that the disk was allowed to leave behind after a cut."),
    ("control", "A run whose outcome is known in advance. An honest disk must lose nothing; a "
     "lying one, and a workload that never syncs, must lose records."),
    ("witness", "The smallest set of lost writes found that loses a record."),
    ("rwbs", "How the guest's kernel marks a request in its trace: W write, F flush (before the "
     "W) or FUA (after it), S synchronous, M metadata."),
    ("commits/s", "Acknowledged commits a second, of one stream unless the cell says otherwise, "
     "in the emulated machine of this run. Compare ratios, not figures."),
)  # fmt: skip
"""Pairs of a word and its meaning."""
