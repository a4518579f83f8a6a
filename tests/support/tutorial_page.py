# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md has a store and what it saves by in each round; what `try` said is put there.

.venv/bin/python tests/support/tutorial_page.py    tries the store three times
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
_CODE: Final = re.compile(r"^```python\n(.*?)^```$", re.M | re.S)
_SAVE: Final = re.compile(r"^def save\(.*?(?=\n\n\n|\Z)", re.M | re.S)
_SAID: Final = re.compile(r"(?<=^    \$ powercut try -- \./guestbook\.py\n).*?(?=^\w)", re.M | re.S)
_VERDICT: Final = re.compile(r"^[✓✗?] \w+ +\./guestbook\.py\n.*?^ files, by POSIX.*?$", re.M | re.S)


def store(number: int, folder: Path) -> Path:
    """The store of a round, from 1, made in `folder`."""
    whole, *saves = _CODE.findall(PAGE.read_text())
    if number > 1:
        whole = _SAVE.sub(lambda _: saves[number - 2].rstrip(), whole, count=1)
    program = folder / "guestbook.py"
    program.write_text(whole)
    program.chmod(0o755)
    (folder / "powercut_program.py").write_text((EXAMPLES / "powercut_program.py").read_text())
    return program


def said_of(number: int, folder: Path, *options: str) -> str:
    """What `try` prints of a round, from its verdict to the end of the table."""
    argv = [ROOT / "powercut", "try", "--seed", "1", *options, "--"]
    done = subprocess.run(
        [*argv, f"./{store(number, folder).name}"],
        cwd=folder,
        env=dict(os.environ, COLUMNS="100"),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    found = _VERDICT.search(done.stdout)
    assert found, done.stdout
    return found[0]


def _block(number: int) -> str:
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="tutorial-") as folder:
        said = said_of(number, Path(folder))
    lines = "\n".join(f"    {line}".rstrip() for line in said.splitlines())
    return re.sub(r"\n\n+", "\n\n", lines) + "\n\n"


def main() -> None:
    """Writes the page anew."""
    blocks = iter([_block(number) for number in (1, 2, 3)])
    PAGE.write_text(_SAID.sub(lambda _: next(blocks), PAGE.read_text()))


if __name__ == "__main__":
    main()
