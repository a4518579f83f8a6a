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
