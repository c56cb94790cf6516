"""A console for tables, apart from the command lines: help and mistakes do not wait for rich."""

from rich.console import Console


class Terminal(Console):
    """A console for tables; a closed pipe ends the command without an error."""

    def on_broken_pipe(self) -> None:
        """Leave the error to `run_command`; rich would exit with code 1."""
        raise BrokenPipeError
