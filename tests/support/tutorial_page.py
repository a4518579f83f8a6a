# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md: a store in forty lines, from LOSSY to SAFE, with what `powercut try` said of it.

.venv/bin/python tests/support/tutorial_page.py    tries the store three times, and writes the page
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from powercut.paths import EXAMPLES, ROOT

PAGE: Final = ROOT / "docs" / "tutorial.md"
_SAVE: Final = """\
def save(book, entries):
    new = book.with_name("new")
    with new.open("w") as file:
        json.dump(entries, file)
    os.replace(new, book)
"""
_SYNCED: Final = _SAVE.replace(
    "        json.dump(entries, file)\n",
    "        json.dump(entries, file)\n        file.flush()\n        os.fsync(file.fileno())\n",
)
_WITH_ITS_NAME: Final = _SYNCED + (
    "    folder = os.open(book.parent, os.O_RDONLY)\n    os.fsync(folder)\n    os.close(folder)\n"
)
ROUNDS: Final = (_SAVE, _SYNCED, _WITH_ITS_NAME)
"""How the store saves, from one round to the next."""

STORE: Final = '''\
#!/usr/bin/env python3
"""A guest book in one JSON file, which is replaced as a whole for each entry."""

import json
import os
from pathlib import Path

import powercut_program


{save}

def setup(folder):
    save(Path(folder, "book.json"), [])


def run(folder, session):
    book = Path(folder, "book.json")
    entries = json.loads(book.read_text())
    session.ready()
    for number in range(1, 1_000_000):
        session.trying(number)
        entries.append(number)
        save(book, entries)
        session.durable(number)


def check(folder, session):
    text = Path(folder, "book.json").read_text()
    try:
        entries = json.loads(text)
    except ValueError:
        session.bad(f"book.json is no JSON: {{text[:20]!r}}")
        return
    for number in entries:
        session.present(number)


powercut_program.main(setup, run, check)
'''

_TEXT: Final = """\
# From LOSSY to SAFE in three rounds

A guest book keeps its entries in one JSON file. It never writes over that file: it writes a new one, and renames it over the old
one, so that a reader sees all of one or all of the other. Does an entry survive a power cut? This page takes ten minutes, with what
powercut printed on 2 cores.

## The store

Three functions tell powercut what the store does ([the contract](adding-a-program.md)). `setup` makes an empty book. `run` adds entries
until it is killed: `session.trying(n)` before each, `session.durable(n)` once it is saved, which is where a server would answer
its client. `check` says after a cut which entries are there. `powercut_program` is one file, in
[workloads/examples](../workloads/examples/powercut_program.py); `powercut init --program` puts it beside a first store.

`guestbook.py`:

```python
{store}```

## Round 1: nothing is synced

    $ powercut try -- ./guestbook.py
{first}

powercut ran the store twice, on files whose every change it recorded and on a recorded disk, and asked `check` what is left in states
that a power cut may leave. Each row is one such place: `lost` are entries that `session.durable` had promised, `losing` how many of
the states lose one. The cause names the write that need not have reached the disk, and the sync that would have made it: `os.replace` was durable
before the bytes of the file that it put there. That file is empty, or has holes.

## Round 2: the file is synced

```python
{synced}```

    $ powercut try -- ./guestbook.py
{second}

Now the bytes are there before the rename. But the rename itself is a change of the folder, and nobody has synced that: after a cut the
old book may be back, without the last entry.

## Round 3: the name is synced, too

```python
{named}```

    $ powercut try -- ./guestbook.py
{third}

SAFE, on a disk, by the promise of a journalling file system, and by that of POSIX alone. It rests on a control, too: the same store on a
disk that ignores flushes was LOSSY, so that a loss would have been seen.

## From here

- The report, whose path `try` prints, draws each write, sync and ack of a loss, and has an address for each crash state that you can send
  to a colleague: [the time line](time-line.md).
- Put your own store in place of the guest book, in any language: [adding a program](adding-a-program.md).
- In CI: `powercut try --junit power-cuts.xml -- ./guestbook.py`; `powercut init --program` writes the job.
"""


def store(number: int, folder: Path) -> Path:
    """The store of a round, from 1, made in `folder`."""
    program = folder / "guestbook.py"
    program.write_text(STORE.format(save=ROUNDS[number - 1]))
    program.chmod(0o755)
    (folder / "powercut_program.py").write_text((EXAMPLES / "powercut_program.py").read_text())
    return program


def verdict_of(said: str) -> str:
    """What `try` printed, from its verdict to the table's end, without blank ends and lines twice."""
    found = re.search(r"^[✓✗?] \w+ +\./guestbook\.py\n.*?^ files, by POSIX.*?$", said, re.M | re.S)
    assert found, said
    told = "\n".join(f"    {line}".rstrip() for line in found[0].splitlines())
    return re.sub("\n\n+", "\n\n", told)


def _tried(number: int) -> str:
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="tutorial-") as name:
        folder = Path(name)
        store(number, folder)
        argv = [ROOT / "powercut", "try", "--seed", "1", "--", "./guestbook.py"]
        wide = dict(os.environ, COLUMNS="100")
        done = subprocess.run(argv, cwd=folder, env=wide, stdout=-1, text=True, check=False)
    return verdict_of(done.stdout)


def main() -> None:
    """Writes the page."""
    first, second, third = (_tried(number) for number in (1, 2, 3))
    text = _TEXT.format(
        store=STORE.format(save=_SAVE),
        synced=_SYNCED,
        named=_WITH_ITS_NAME,
        first=first,
        second=second,
        third=third,
    )
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
