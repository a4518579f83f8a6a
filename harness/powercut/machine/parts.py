# SPDX-License-Identifier: Apache-2.0
"""What our small guest is made of, by name, version and digest."""

from __future__ import annotations

import functools
import json

from powercut.machine.guest_image import GuestImage
from powercut.machine.package import sha256_of_file
from powercut.machine.port import Part


@functools.cache
def guest_parts(image: GuestImage) -> tuple[Part, ...]:
    """Its kernel, and its programs."""
    facts = json.loads((image.kernel.parent / "image.json").read_text())
    kernel = Part(
        role="guest kernel",
        name="Linux",
        version=image.kernel_release,
        package=f"{facts.get('package', '')} {facts.get('version', '')}".strip(),
        sha256=sha256_of_file(image.kernel),
    )
    programs = Part(
        role="guest programs",
        name="initramfs",
        version=image.digest,
        sha256=sha256_of_file(image.initramfs),
    )
    return kernel, programs


def guest_versions(image: GuestImage) -> dict[str, str]:
    """The same in short, as recordings keep it."""
    return {
        "kernel_release": image.kernel_release,
        "kernel_package": image.package,
        "guest_digest": image.digest,
    }
