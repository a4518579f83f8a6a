# SPDX-License-Identifier: Apache-2.0
"""The templates of all pages, and how they write figures."""

from __future__ import annotations

from functools import cache

import jinja2


def page(name: str) -> jinja2.Template:
    """The template called `name`; everything that it is given is escaped, and must be given."""
    return _environment().get_template(name)


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
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("powercut.report.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["figure"] = figure
    environment.filters["ratio"] = ratio
    environment.filters["us"] = microseconds
    return environment
