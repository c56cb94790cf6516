"""The command line of a tool: arguments, one error message, an exit code."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from clozeline.command import Parser, run_command
from clozeline.hub import fetch_folder


class Arguments(Parser):
    """An argument parser that reports errors as configuration errors: one message, exit code 64."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


class IntermixedArguments(Arguments):
    """Arguments whose `key=value` words may be mixed with options."""

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> argparse.Namespace:
        """Return the options."""
        options: argparse.Namespace = self.parse_intermixed_args(args, namespace)
        return options


def some_path(text: str) -> Path:
    """Return a path, as the `type` of an argument; empty text, such as from an unset variable, is an error."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, got nothing")
    return Path(text)


def model_path(text: str) -> Path:
    """Return the folder of a run or a model, as the `type` of an argument; `hf://org/name` is downloaded."""
    return fetch_folder(text or some_path(text))


def natural(text: str) -> int:
    """Return an integer of at least 0, as the `type` of an argument."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected an integer, 0 or more, got {text!r}")
    return int(text)


def positive(text: str) -> int:
    """Return an integer above 0, as the `type` of an argument."""
    number = natural(text)
    if not number:
        raise argparse.ArgumentTypeError("expected a number above 0, got 0")
    return number


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `2 rows`, `1,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def run_tool(
    parser: Arguments, arguments: Sequence[str] | None, action: Callable[[argparse.Namespace], int | None]
) -> int:
    """Parse, act and return the exit code: a user's mistake becomes one message, never a traceback."""
    return run_command(lambda: action(parser.parse_args(arguments)) or 0, "interrupted: nothing was published")
