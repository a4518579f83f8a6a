# SPDX-License-Identifier: Apache-2.0
"""What a process says on pipes, taken as it comes: whoever listens says what is too much."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Iterator, Sequence
from typing import IO, Final

_CHUNK: Final = 1 << 16


def heard(streams: Sequence[IO[bytes]], deadline: float) -> Iterator[tuple[int, bytes]]:
    """The number of a stream and what it brings, until all have ended.

    Raises TimeoutError at the `deadline`, on time.monotonic's clock, even if there is always more.
    """
    with selectors.DefaultSelector() as selector:
        for number, stream in enumerate(streams):
            selector.register(stream, selectors.EVENT_READ, number)
        while selector.get_map():
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            for key, _ in selector.select(left_s):
                data = os.read(key.fd, _CHUNK)
                if not data:
                    selector.unregister(key.fileobj)
                yield key.data, data
