# SPDX-License-Identifier: Apache-2.0
"""The words beside the pictures of a recording."""

from __future__ import annotations

from powercut.report.page.pages import page
from powercut_extras.pages.pictures import commands_of

PAGES = "powercut_extras.pages"


def test_a_page_without_flushes_to_ask_about_has_no_command_for_them():
    """That of a captured folder."""
    commands = commands_of("results/capture/one", with_flushes=False)
    audit, explored = None, ()
    parts = page("picture_parts.html.j2", PAGES).module
    made = page("pictures.html.j2", PAGES).render(
        commands=commands, audit=audit, explored=explored, minimised=[], data=None, pics=parts
    )
    assert "explore results/capture/one" in made
    assert "audit flushes" not in made
