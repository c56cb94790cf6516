"""The command line of a tool: arguments in, one message and an exit code out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from pipeline.command import Parser, guarded

__all__ = ["Arguments", "Terminal", "counted", "natural", "positive", "run_tool", "some_path"]


class Arguments(Parser):
    """An argument parser whose errors are configuration errors: one message, exit code 64.

    Args:
        description: docstring of the tool.
    """

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


class Terminal(Console):
    """Where tables go. A reader that has seen enough is no error here either."""

    def on_broken_pipe(self) -> None:
        """Leave it to `run_tool`; rich itself would end the process with code 1."""
        raise BrokenPipeError


def some_path(text: str) -> Path:
    """A path, as the `type` of an argument; an empty one, such as a variable without a value, is a mistake."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, got nothing")
    return Path(text)


def natural(text: str) -> int:
    """A number of at least 0, as the `type` of an argument."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a whole number, 0 or more, got {text!r}")
    return int(text)


def positive(text: str) -> int:
    """A number above 0, as the `type` of an argument."""
    number = natural(text)
    if not number:
        raise argparse.ArgumentTypeError("expected a number above 0, got 0")
    return number


def counted(number: int, noun: str) -> str:
    """`1 row`, `2 rows`, `1,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def run_tool(parser: Arguments, arguments: Sequence[str] | None, action: Callable[[argparse.Namespace], int]) -> int:
    """Parse and act; the exit code. A person's mistake becomes one message, never a traceback.

    Args:
        parser: of the tool.
        arguments: words of the command; None: those of the process.
        action: what to do with the options; returns the exit code of success.
    """

    def run() -> int:
        try:
            code = action(parser.parse_args(arguments))
            sys.stdout.flush()
        except BrokenPipeError:  # the reader, such as `head`, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except KeyboardInterrupt:
            sys.stderr.write("interrupted: nothing was published\n")
            return 130
        return code

    return guarded(run)
