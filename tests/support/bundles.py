# SPDX-License-Identifier: Apache-2.0
"""Bundles, judged again as `powercut verify` does."""

from __future__ import annotations

from pathlib import Path

from powercut.campaign.bundle import BundleVerdict, unpacked, verify_unpacked


def verify_bundle(bundle: Path) -> BundleVerdict:
    """What everything in the bundle of a trial comes to."""
    with unpacked(bundle) as (manifest, root):
        return verify_unpacked(bundle, manifest, root)
