"""The command line of a tool: arguments, one error message, an exit code."""

import argparse
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from clozeline.command import Parser, run_command, stopping_at_signals
from clozeline.errors import ConfigurationError
from clozeline.hub import fetch_folder

_UNITS: Final = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


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


def require_run(run: Path) -> None:
    """Refuse a folder without checkpoints, with the message of `find_checkpoint`, but without importing torch."""
    if not (run / "checkpoints").is_dir():
        raise ConfigurationError(f"{run}: expected a run directory with checkpoints; train first, or wait")


def require_model(folder: Path) -> None:
    """Refuse a missing folder of a run or model, with the message of `read_checkpoint`, but without importing torch."""
    if not folder.is_dir():
        raise ConfigurationError(
            f"{folder}: expected a folder with config.json and weights, or one that import_model wrote (model.yaml); "
            "give such a folder"
        )


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


def byte_count(text: str) -> int:
    """Parse a size such as `500MB`, as the `type` of an argument."""
    match = re.fullmatch(r"(\d+)([KMG]B)?", text)
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"expected a number of bytes such as 5GB, 200MB or 4096, got '{text}'")
    return int(match[1]) * _UNITS[match[2] or ""]


def plural(number: int, noun: str) -> str:
    """Return a number with its noun: `1 row`, `2 rows`, `1,000 rows`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def run_tool(
    parser: Arguments,
    arguments: Sequence[str] | None,
    action: Callable[[argparse.Namespace], int | None],
    *,
    prints: bool = False,
) -> int:
    """Parse, act and return the exit code; `prints`: the result of the tool is what it prints, see `run_command`."""

    def act() -> int:
        with stopping_at_signals():
            return action(parser.parse_args(arguments)) or 0

    return run_command(act, "interrupted: run the same command again", prints=prints)
