# SPDX-License-Identifier: Apache-2.0
"""`powercut serve`: all results in a browser."""

from __future__ import annotations

import secrets
from pathlib import Path

import click

from powercut.cli.options import FILE
from powercut.cli.output import echo
from powercut.model.errors import UsageError
from powercut.paths import RESULTS


@click.command()
@click.argument("results", type=FILE, default=RESULTS, metavar="[RESULTS]")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8437,
    show_default=True,
    help="Port to listen on; 0 takes one that is free.",
)
def serve(results: Path, port: int) -> int:
    """Shows all results below RESULTS in a browser on this host, until it is interrupted.

    Runs and captured folders with their timelines, certificates, and what changed from one to the
    next.  It listens on 127.0.0.1 only, asks for the token in the address that it prints, and
    writes nothing.
    """
    from powercut_extras.pages.browse import ADDRESS, server

    if not results.is_dir():
        raise UsageError(f"{results}: there is no such folder", hint="powercut run makes one")
    token = secrets.token_urlsafe(24)
    with server(results, port, token) as listening:
        echo(f"http://{ADDRESS}:{listening.server_address[1]}/?token={token}   Ctrl-C ends it")
        try:
            listening.serve_forever()
        except KeyboardInterrupt as interrupt:
            if interrupt.args:  # by another signal (powercut.cli.main)
                raise
            echo("")
    return 0
