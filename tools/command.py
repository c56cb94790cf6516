"""The command line of a tool: arguments in, one message and an exit code out."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import NoReturn

from pipeline.__main__ import guarded
from pipeline.errors import ConfigurationError

__all__ = ["Arguments", "positive", "run_tool"]


class Arguments(argparse.ArgumentParser):
    """An argument parser whose errors are configuration errors: one message, exit code 64.

    Args:
        description: docstring of the tool.
    """

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        """Wrong use."""
        raise ConfigurationError(f"{message}; see --help")


def positive(text: str) -> int:
    """A number above 0, as the `type` of an argument."""
    if not (text.isascii() and text.isdigit() and int(text)):
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {text!r}")
    return int(text)


def run_tool(parser: Arguments, arguments: Sequence[str] | None, action: Callable[[argparse.Namespace], int]) -> int:
    """Parse and act; the exit code. A person's mistake becomes one message, never a traceback.

    Args:
        parser: of the tool.
        arguments: words of the command; None: those of the process.
        action: what to do with the options; returns the exit code of success.
    """
    return guarded(lambda: action(parser.parse_args(arguments)))
