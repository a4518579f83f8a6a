# SPDX-License-Identifier: Apache-2.0
"""`powercut audit`: is each sync needed, enough, and what does it cost?"""

from __future__ import annotations

import click

from powercut.cli.lazy_group import LazyGroup

AUDITS = {
    "acks": "powercut.cli.audit_acks:acks",
    "cost": "powercut.cli.audit_cost:cost",
    "flushes": "powercut.cli.audit_flushes:flushes",
    "syncs": "powercut.cli.audit_syncs:syncs",
}


@click.group(cls=LazyGroup, table=AUDITS)
def audit() -> None:
    """Says of acks, flushes and syncs whether each is needed, comes in time, and what it costs."""
