# SPDX-License-Identifier: Apache-2.0
"""`powercut import`: recordings made elsewhere: a bundle, or another tool's log."""

from __future__ import annotations

from pathlib import Path

import click

from powercut.cli.extras import foreign_logs, with_options
from powercut.cli.lookup import is_bundle
from powercut.cli.options import FILE, json_option, refuse_others
from powercut.cli.output import Speaker, write_json_object
from powercut.model.errors import UsageError


@click.command("import")
@click.argument("source", type=FILE)
@click.option("-o", "--output", type=FILE, help="The recording; a new folder.")
@with_options(foreign_logs, "import_options")
@json_option("what was read")
def import_(
    source: Path,
    output: Path | None,
    json_file: Path | None,
    **of_a_log: object,
) -> int:
    """Unpacks a bundle, or reads a dm-log-writes or blklogwrites log.

    SOURCE is a bundle, or a log with --base.

    A log is judged by its marks with --filesystem, --check or --check-program, and as that of
    powercut's own workload with --run-id and --layout. Else its states can be exported.

    Exit status: 0 all is there; 3 it is not whole, or not what it was. Of a log that is judged: 0
    SAFE, 1 LOSSY, 3 INCONCLUSIVE.
    """
    if output is None:
        raise UsageError("-o is missing", hint="name a new folder for the recording")
    if is_bundle(source):
        refuse_others(("output", "json_file"), "a bundle", hint="leave it out")
        return _unpack(source, output, json_file)
    return foreign_logs().read(source, output, json_file, **of_a_log)


def _unpack(bundle: Path, output: Path, json_file: Path | None) -> int:
    from powercut.campaign.bundle_file import unpack

    made = unpack(bundle, output)
    if made.kind == "capture":
        recording, said = output, made.cell
    else:
        recording = output / made.recording
        said = f"{made.scenario}, {made.cell}, trial {made.trial}"
    Speaker(json_file)(f"{recording}: {said}")
    write_json_object("import", {"source": "bundle", "recording": str(recording)}, json_file)
    return 0
