# SPDX-License-Identifier: Apache-2.0
"""`powercut history`: certificates and runs over time."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.options import FILE, OUTPUT, json_option
from powercut.cli.output import console_beside, write_json_object
from powercut.paths import RESULTS


@click.command()
@click.argument("results", type=FILE, default=RESULTS, metavar="[RESULTS]")
@click.option(
    "--profile", metavar="NAME", help="Only this profile or scenario; capture for captured folders."
)
@click.option("--html", "page", type=OUTPUT, help="Write the page here, not in RESULTS.")
@click.option(
    "--publish",
    type=FILE,
    metavar="DIR",
    help="Write the page as DIR/index.html, with copies of the pages that it leads to: what a "
    "nightly job can publish.",
)
@json_option("the verdicts of each")
def history(
    results: Path,
    profile: str | None,
    page: Path | None,
    publish: Path | None,
    json_file: Path | None,
) -> int:
    """Shows certificates and runs over time, and what changed with the last of each.

    Reads every certificate, run and captured folder below RESULTS; runs of one pytest session count
    as one.  Changes of verdicts come first, then costs that changed beyond noise, then versions.  A
    certificate that does not verify is marked; its recordings are not read.
    """
    from powercut_extras.pages.history_page import print_history, publish_history, write_history
    from powercut_extras.pages.history_reader import read_history

    console = console_beside(json_file)
    found = read_history(results, profile=profile)
    print_history(console, found)
    paths = [] if publish is None else [publish_history(found, publish)]
    if page is not None or publish is None:
        paths.append(write_history(found, page))
    for path in paths:
        console.print(f"\n   page: {path}", soft_wrap=True, highlight=False, markup=False)
    told = [
        {
            "profile": one.profile,
            "runs": [
                {
                    "directory": str(night.directory),
                    "started": night.started,
                    "whole": night.whole,
                    "cells": [
                        {
                            "cell": " ".join(name),
                            "verdict": then.verdict.name.lower(),
                            "as_expected": then.as_expected,
                        }
                        for name, then in night.cells.items()
                    ],
                }
                for night in one.nights
            ],
        }
        for one in found.series
    ]
    write_json_object("history", {"series": told}, json_file)
    return 0
