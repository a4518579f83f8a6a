# SPDX-License-Identifier: Apache-2.0
"""`powercut audit`: is each sync needed, enough, and what does it cost?"""

from __future__ import annotations

import click

from powercut.cli.lazy_group import LazyGroup

AUDITS = {
    "acks": "powercut_extras.audit.acks_verb:acks",
    "flushes": "powercut_extras.audit.flushes_verb:flushes",
    "syncs": "powercut_extras.audit.syncs_verb:syncs",
}


@click.group(cls=LazyGroup, table=AUDITS, extras="powercut.commands.audit")
def audit() -> None:
    """Says of acks, flushes and syncs whether each is needed, comes in time, and what it costs."""
