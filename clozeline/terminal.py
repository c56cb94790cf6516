"""A console for tables, apart from the command lines: help and mistakes do not wait for rich."""

from collections.abc import Iterable

from rich.console import Console
from rich.segment import Segment

from clozeline.errors import show_controls


class Terminal(Console):
    """A console for tables; a closed pipe ends the command without an error. What it prints has no controls."""

    def on_broken_pipe(self) -> None:
        """Leave the error to `run_command`; rich would exit with code 1."""
        raise BrokenPipeError

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        shown = (part if part.control else part._replace(text=show_controls(part.text)) for part in buffer)
        return super()._render_buffer(shown)
