# SPDX-License-Identifier: Apache-2.0
"""A console that shows what strangers wrote and obeys none of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from powercut.model.printable import printable


class PlainConsole(Console):
    """rich's console; control characters within a text come out as escapes.

    What rich itself sends to the terminal, colours and cursor movements, is not text.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of `renderable`, their texts printable."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))

    def on_broken_pipe(self) -> NoReturn:
        """Called while the BrokenPipeError is handled; rich's own ends the process with 1, which
        claims that a verdict differs."""
        raise  # noqa: PLE0704
