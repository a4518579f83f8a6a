# SPDX-License-Identifier: Apache-2.0
"""Moves modules, and rewrites whatever names them.

    .venv/bin/python tests/support/move_module.py OLD NEW [OLD NEW]...

OLD and NEW are dotted names below harness/, of a module or of a package with all that it holds.
Imports, dotted names and paths are rewritten in every file under version control: in sources, in
texts such as `monkeypatch.setattr("powercut.rig.cell.Rig", ...)`, in planted bugs, in pages.  What
moves loses its row in house_rooms.tsv.  `from powercut.rig import cell` gets the new package, and a
new name of its own where that differs.  NEW's package has to be there; ruff sorts and formats.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

UNTOUCHED = ("CHANGELOG.md",)
"""It says what things were called when they changed."""

TABLE = "tests/support/house_rooms.tsv"


class Moves:
    """What moves, in the checkout at `root`: a new dotted name for each old one."""

    def __init__(self, root: Path, pairs: Sequence[tuple[str, str]]) -> None:
        """Raises ValueError for what is not there, or is there already."""
        self.root = root
        self.pairs = pairs
        self.names: dict[str, str] = {}
        for old, new in pairs:
            self._add(old, new)

    def _add(self, old: str, new: str) -> None:
        at, to = self._path(old), self._path(new)
        parent = to.parent
        if not (parent / "__init__.py").is_file():
            raise ValueError(f"{parent} is no package yet: begin it with what it is for")
        if to.exists() or to.with_suffix(".py").exists():
            raise ValueError(f"{new} is there already")
        if at.is_dir():
            for path in sorted(at.rglob("*.py")):
                inner = path.relative_to(at).with_suffix("").as_posix().replace("/", ".")
                tail = f".{inner}".removesuffix(".__init__")
                self.names[old + tail] = new + tail
        elif at.with_suffix(".py").is_file():
            self.names[old] = new
        else:
            raise ValueError(f"{old} is not there")

    def _path(self, name: str) -> Path:
        return self.root / "harness" / name.replace(".", "/")

    def make(self) -> list[Path]:
        """Moves the files and rewrites the others; returns what has changed."""
        for old, new in self.pairs:
            at, to = self._path(old), self._path(new)
            if not at.is_dir():
                at, to = at.with_suffix(".py"), to.with_suffix(".py")
            self._git("mv", str(at), str(to))
        changed = []
        for path in self._tracked():
            try:
                text = path.read_text()
            except UnicodeDecodeError:
                continue
            if path == self.root / TABLE:
                new_text = self._table(text)
            else:
                new_text = self.rewritten(text, python=path.suffix == ".py")
            if new_text != text:
                path.write_text(new_text)
                changed.append(path)
        return changed

    def rewritten(self, text: str, *, python: bool) -> str:
        """`text` with new names."""
        if python:
            text = self._with_new_packages(text)
        return self._with_new_paths(self._with_new_names(text))

    def _with_new_names(self, text: str) -> str:
        if not any(old in text for old in self.names):
            return text
        known = "|".join(map(re.escape, sorted(self.names, key=len, reverse=True)))
        return re.sub(rf"(?<![\w.])({known})(?!\w)", lambda found: self.names[found[1]], text)

    def _with_new_paths(self, text: str) -> str:
        for old, new in self.names.items():
            before, after = (name.replace(".", "/") for name in (old, new))
            text = re.sub(rf"(?<!\w)(?<!\w/){re.escape(before)}\.py\b", f"{after}.py", text)
            text = text.replace(f"harness/{before}.py", f"harness/{after}.py")
            inner, package = before.removeprefix("powercut/"), after.removeprefix("powercut/")
            if package != after:  # f"{_P}/sandbox/archive.py", as planted bugs say
                text = text.replace(f"}}/{inner}.py", f"}}/{package}.py")
        for old, new in self.pairs:
            before, after = (name.replace(".", "/") for name in (old, new))
            text = re.sub(rf"\bharness/{re.escape(before)}(?=/)", f"harness/{after}", text)
        return text

    # --- from PACKAGE import MODULE ---------------------------------------------------------

    def _with_new_packages(self, text: str) -> str:
        edits = list(self._edits(ast.parse(text))) if self._may_name(text) else []
        lines = text.split("\n")  # as `ast` counts them
        for (first, begin), (last, end), put in sorted(edits, reverse=True):
            head = lines[first - 1].encode()[:begin].decode()
            rest = lines[last - 1].encode()[end:].decode()
            indented = put.replace("\n", "\n" + " " * begin)
            lines[first - 1 : last] = [head + indented + rest]
        return "\n".join(lines)

    def _may_name(self, text: str) -> bool:
        return any(f"from {old.rpartition('.')[0]} import" in text for old in self.names)

    def _edits(self, tree: ast.Module) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
        """Begin and end, as lines and bytes in them, and what stands there from now on."""
        called: dict[str, str] = {}
        taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                moved = [one for one in node.names if f"{node.module}.{one.name}" in self.names]
                if moved:
                    yield *_span(node), self._statements(node, moved, taken, called)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in called:
                yield *_span(node), called[node.id]

    def _statements(
        self,
        node: ast.ImportFrom,
        moved: Sequence[ast.alias],
        taken: set[str],
        called: dict[str, str],
    ) -> str:
        left = [one for one in node.names if one not in moved]
        said = [f"from {node.module} import {', '.join(map(_told, left))}"] if left else []
        for one in moved:
            package, _, name = self.names[f"{node.module}.{one.name}"].rpartition(".")
            known_as = one.asname
            if known_as is None and name != one.name:
                if name in taken:
                    known_as = one.name
                else:
                    called[one.name] = name
            suffix = f" as {known_as}" if known_as and known_as != name else ""
            said.append(f"from {package} import {name}{suffix}")
        return "\n".join(said)

    # --- files ------------------------------------------------------------------------------

    def _table(self, text: str) -> str:
        rows = text.splitlines(keepends=True)
        return "".join(row for row in rows if row.rstrip("\n").split("\t")[1] not in self.names)

    def _tracked(self) -> list[Path]:
        listed = self._git("ls-files", "-z").split("\0")
        paths = [self.root / name for name in listed if name and name not in UNTOUCHED]
        return [path for path in paths if path.is_file() and not path.is_symlink()]

    def _git(self, *words: str) -> str:
        command = ["git", "-C", str(self.root), *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _span(node: ast.stmt | ast.expr) -> tuple[tuple[int, int], tuple[int, int]]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def _told(alias: ast.alias) -> str:
    return f"{alias.name} as {alias.asname}" if alias.asname else alias.name


def main(words: Sequence[str]) -> None:
    if not words or len(words) % 2:
        sys.exit(__doc__)
    root = Path(__file__).parents[2]
    try:
        changed = Moves(root, list(zip(words[::2], words[1::2], strict=True))).make()
    except ValueError as error:
        sys.exit(str(error))
    ruff = [sys.executable, "-m", "ruff"]
    python = [str(path) for path in changed if path.suffix == ".py"]
    subprocess.run([*ruff, "check", "--select", "I", "--fix", "-q", *python], cwd=root, check=True)
    subprocess.run([*ruff, "format", "-q", *python], cwd=root, check=True)
    sys.stdout.write(f"{len(changed)} files name what has moved\n")


if __name__ == "__main__":
    main(sys.argv[1:])
