# SPDX-License-Identifier: Apache-2.0
"""Which options of an image format a scenario may give to `qemu-img create -o`.

Only those that say how the one image is laid out: options that name a backing file or a data
file would have QEMU open what a stranger chose.  What a newer QEMU brings is refused until it
was looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from powercut.model.machine import ImageFormat

_ALLOWED: Final = {
    ImageFormat.QCOW2: (
        "cluster_size",
        "compat",
        "extended_l2",
        "lazy_refcounts",
        "preallocation",
        "refcount_bits",
    ),
    ImageFormat.VDI: ("static",),
    ImageFormat.VMDK: (
        "adapter_type",
        "compat6",
        "hwversion",
        "subformat",
        "toolsversion",
        "zeroed_grain",
    ),
    ImageFormat.VHDX: ("block_size", "block_state_zero", "log_size", "subformat"),
    ImageFormat.VPC: ("force_size", "subformat"),
    ImageFormat.QED: ("cluster_size", "table_size"),
    ImageFormat.PARALLELS: ("cluster_size",),
}
"""What the drivers of QEMU 7.2 to 11.1 take (qemu-img create -f FORMAT -o help)."""

_WHY: Final = {
    "backing_file": "the image stands alone: another file below it would not be captured",
    "backing_fmt": "the image stands alone: another file below it would not be captured",
    "data_file": "the image stands alone: a data file beside it would not be captured",
    "data_file_raw": "the image stands alone: a data file beside it would not be captured",
    "size": "the size of the disk is disk.size",
    "encryption": "powercut finds records by their content, and has no key",
    "encrypt.format": "powercut finds records by their content, and has no key",
    "compression_type": "powercut finds records by their content; nothing is compressed",
}
"""What is known of options that are not allowed."""

_VARIANTS: Final = {
    # One file that begins with its header, on a disk that may be longer than the file.
    (ImageFormat.VMDK, "subformat"): ("monolithicSparse",),
    (ImageFormat.VPC, "subformat"): ("dynamic",),
    (ImageFormat.VHDX, "subformat"): ("dynamic", "fixed"),
    (ImageFormat.VPC, "force_size"): ("on",),
}
"""The values that an option may take."""


def refused_format_options(image: ImageFormat, options: Sequence[str]) -> tuple[str, ...]:
    """What of `options`, `name=value` each, may not be given, a sentence each."""
    return tuple(_refused(image, options))


def _refused(image: ImageFormat, options: Sequence[str]) -> Iterator[str]:
    if image is ImageFormat.RAW:
        if options:
            yield "raw is no format and has no options"
        return
    names = [option.partition("=")[0] for option in options]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{name} is given more than once"
    for option in options:
        name, _, value = option.partition("=")
        if name in _WHY:
            yield f"{name}: {_WHY[name]}"
        elif name not in _ALLOWED[image]:
            known = ", ".join(_ALLOWED[image])
            yield f"{image.value} has no option {name!r} here; it has {known}"
        possible = _VARIANTS.get((image, name))
        if possible and value not in possible:
            yield (
                f"{name}={value} does not fit on one disk of fixed size; "
                f"it can be {' or '.join(possible)}"
            )
