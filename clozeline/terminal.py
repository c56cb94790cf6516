"""A console for tables, apart from the command lines: help and mistakes do not wait for rich."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.segment import Segment

from clozeline.errors import show_controls


class Terminal(Console):
    """A console for tables that prints no control characters of foreign texts; of 80 columns where COLUMNS is 0."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.width = self.width or 80

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        shown = (part if part.control else part._replace(text=show_controls(part.text)) for part in buffer)
        return super()._render_buffer(shown)
