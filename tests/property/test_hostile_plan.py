# SPDX-License-Identifier: Apache-2.0
"""Scenarios that are nearly right: `run --dry-run` shows them, or refuses them with own errors.

Each is one that powercut brings, with a few values, keys or lines changed.
"""

from __future__ import annotations

import contextlib
import copy
import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from hostile import bounded
from ruamel.yaml import YAML

from powercut.cli.commands import cli
from powercut.model.errors import PowercutError
from powercut.paths import SCENARIOS

_VALUES = [
    *(None, True, False, 0, 1, -1, 2, 511, 4096, 1 << 31, 1 << 63, 1 << 64, 10**30),
    *(0.5, -0.0, 1e308, float("inf"), float("nan"), "", " ", "x", "auto", "none", "1", "-1"),
    *("64 MiB", "3s", "1e9s", "99999999999999999 PiB", "/", "/dev/null", "../..", "-x", "a\nb"),
    *("\0", "\ud800", "\u202e", "ÄÖ", "💥" * 9, "a" * 5000, "{}", "[]", "%s", "${x}", "*", "~"),
    *([], {}, [[]], [None], [{}], {"a": None}, [1, "x", None], {"": ""}, {"sweep": []}),
    *(list(range(2000)), {str(at): at for at in range(400)}),
]
_LINES = [
    *("<<: *x", "x: &x [*x]", "? [a]\n: b", "name: again", "- a", "\t", "%YAML 9.9", "---", "..."),
    *("!!binary eA==", "a: !!python/name:os.system", "a: !<tag:x> b", "a: |", "'", "{", "\x85"),
    *("\ufeff", "\u2028", "matrix: {seed: [1]}", "trials: 1_000", "seed: 0o17", "seed: 1:2:3"),
]
_KEYS = [None, 1, True, "", "x", "name", "matrix", "cells", "preset", "seed", "a.b", "<<", "\ud800"]
FILES = sorted(SCENARIOS.rglob("*.yaml"))


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every item of every map and list in `value`: what holds it, and where in that."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for at, inner in list(items):
        found.append((value, at))
        if isinstance(inner, dict | list):
            found += _places(inner)
    return found


def _changed(rng: random.Random, document: Any) -> Any:
    changed = copy.deepcopy(document)
    for _ in range(rng.randint(1, 3)):
        holder, at = rng.choice(_places(changed) or [({}, "x")])
        kind = rng.randrange(5)
        if kind == 0:
            del holder[at]
        elif kind == 1 and isinstance(holder, dict):
            holder[rng.choice(_KEYS)] = holder.pop(at)
        elif kind == 2:
            _, other = rng.choice(_places(document) or [({}, None)])
            holder[at] = copy.deepcopy(document.get(other)) if isinstance(other, str) else other
        elif kind == 3 and isinstance(holder, dict):
            holder[rng.choice(_KEYS)] = copy.deepcopy(rng.choice(_VALUES))
        else:
            holder[at] = copy.deepcopy(rng.choice(_VALUES))
    return changed


def _text(rng: random.Random, path: Path) -> bytes:
    text = path.read_text(encoding="utf-8")
    if rng.random() < 0.7:
        out = io.StringIO()
        writer = YAML(typ="safe")
        with contextlib.suppress(Exception):  # a value that YAML cannot say: as lines, then
            writer.dump(_changed(rng, YAML(typ="safe").load(text)), out)
            return out.getvalue().encode(errors="surrogatepass")
    lines = text.splitlines(keepends=True)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines))
        what = rng.randrange(4)
        if what == 0:
            lines.insert(at, " " * rng.randrange(5) + rng.choice(_LINES) + "\n")
        elif what == 1:
            lines[at] = lines[at].replace(":", rng.choice(["", "::", ": !!int", ": &a", ": *a"]), 1)
        elif what == 2:
            lines.insert(at, rng.choice(lines))
        else:
            lines[at] = " " * rng.randrange(9) + lines[at].lstrip()
    data = bytearray("".join(lines).encode())
    if rng.random() < 0.2:
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def escaped(call: Callable[[], Any]) -> str:
    """What else than a PowercutError `call` raised, and where; empty if nothing."""
    try:
        with bounded():
            call()
    except (PowercutError, click.ClickException):
        return ""
    except Exception as error:
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        assert where is not None
        code = where.tb_frame.f_code
        return (
            f"{type(error).__name__} in {code.co_qualname}, line {where.tb_lineno}: {error!s:.200}"
        )
    return ""


@pytest.mark.parametrize(
    "examples",
    [
        pytest.param(60, id="slice"),
        pytest.param(20_000, id="campaign", marks=pytest.mark.campaign),
    ],
)
def test_any_scenario_is_planned_or_refused(tmp_path, examples):
    path = tmp_path / "x.yaml"
    found: dict[str, str] = {}
    for seed in range(examples):
        rng = random.Random(seed)
        source = rng.choice(FILES)
        path.write_bytes(_text(rng, source))
        brief = ["--brief"] if rng.random() < 0.8 else []
        argv = ["run", "--dry-run", str(path), *brief]
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            trouble = escaped(lambda argv=argv: cli.main(argv, standalone_mode=False))
        if trouble:
            found.setdefault(trouble.partition(":")[0], f"{trouble}; seed {seed}, {source.name}")
    assert not found, "\n".join(found.values())
