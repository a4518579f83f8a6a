# SPDX-License-Identifier: Apache-2.0
"""Bundles that are nearly right, every seal of them renewed: judged again, or refused.

A trial of a run made by hand is bundled; then one file is changed in value, key or byte, and all
digests say that it was so from the first.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from bundles import verify_bundle
from read_here import archives_read_here
from runs_by_hand import make_run
from test_hostile_plan import _changed, escaped

from powercut.campaign.bundle import make_bundle, unpack, write_bundle
from powercut.campaign.bundle_file import BundledFile, BundleManifest


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[BundleManifest, Path]:
    """A bundle's manifest and its files."""
    folder = tmp_path_factory.mktemp("bundle")
    run = make_run(folder / "results")
    trial = next(iter(run.trials()))
    make_bundle(trial.path, folder / "bundle")
    return unpack(folder / "bundle", folder / "unpacked"), folder / "unpacked"


def _altered(rng: random.Random, name: str, data: bytes) -> bytes:
    if name.endswith(".json") and rng.random() < 0.8:
        return json.dumps(_changed(rng, json.loads(data))).encode(errors="surrogatepass")
    changed = bytearray(data) or bytearray(8)
    what = rng.randrange(3)
    if what == 0:
        return bytes(changed[: rng.randrange(len(changed) + 1)])
    for _ in range(rng.choice([1, 3, 40])):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed) if what == 1 else bytes(changed) + bytes(rng.randrange(64))


def _described(folder: Path, name: str) -> dict[str, Any]:
    data = (folder / name).read_bytes()
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def _attack(rng: random.Random, manifest: BundleManifest, source: Path, folder: Path) -> str:
    """Makes `folder/bundle`; the file that is changed in it."""
    files = folder / "files"
    shutil.rmtree(files, ignore_errors=True)
    shutil.copytree(source, files)
    names = [each.path for each in manifest.files if (files / each.path).stat().st_size < 1 << 20]
    name = rng.choice(names)
    (files / name).chmod(0o644)
    (files / name).write_bytes(_altered(rng, name, (files / name).read_bytes()))
    seal = (files / name).parent / "manifest.json"
    if seal.is_file() and seal != files / name:
        told = json.loads(seal.read_bytes())
        for entry in told["files"]:
            if entry["name"] == Path(name).name:
                entry.update(_described(seal.parent, entry["name"]))
        seal.write_text(json.dumps(told))
    listed = tuple(
        BundledFile(path=each.path, **_described(files, each.path)) for each in manifest.files
    )
    (folder / "bundle").unlink(missing_ok=True)
    write_bundle(files, manifest.model_copy(update={"files": listed}), folder / "bundle")
    return name


@pytest.mark.parametrize(
    "examples",
    [
        pytest.param(30, id="slice"),
        pytest.param(5_000, id="campaign", marks=pytest.mark.campaign),
    ],
)
def test_any_bundle_is_judged_or_refused(honest, tmp_path, examples):
    manifest, source = honest
    found: dict[str, str] = {}
    for seed in (105, *range(examples)):  # 105: a seed in environment.json that is no number
        name = _attack(random.Random(seed), manifest, source, tmp_path)
        with archives_read_here():
            trouble = escaped(lambda: verify_bundle(tmp_path / "bundle"))
        if trouble:
            found.setdefault(trouble.partition(":")[0], f"{trouble}; seed {seed}, {name}")
    assert not found, "\n".join(found.values())
