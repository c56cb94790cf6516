"""The command line of a tool: arguments, settings as `key=value` words, one error message, an exit code."""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar, cast

from clozeline.command import Parser, run_command, stopping_at_signals
from clozeline.configuration.config import validate
from clozeline.configuration.described_keys import describe
from clozeline.configuration.named_algorithms import allow_words
from clozeline.configuration.overrides import fields_of, override
from clozeline.errors import ConfigurationError
from clozeline.hub import fetch_folder
from clozeline.train.configuration.checkpoint import StepChoice

S = TypeVar("S")

_ORIGIN: Final = "command line"
_UNITS: Final = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}


class Arguments(Parser):
    """An argument parser that reports errors as configuration errors: one message, exit code 64."""

    def __init__(self, description: str | None) -> None:
        super().__init__(description=description)


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
    if text.startswith("output="):
        raise argparse.ArgumentTypeError(
            f"expected a path alone, got '{text}': write it without `output=`"
        )
    return Path(text)


def model_path(text: str) -> Path:
    """Return the folder of a run or a model, as the `type` of an argument; `hf://org/name` is downloaded.

    A missing folder is refused here, before the libraries that models need are imported.
    """
    folder = fetch_folder(text or some_path(text)).expanduser()
    if not folder.is_dir():
        raise ConfigurationError(
            f"{folder}: no such folder; expected a run, or a folder with a model"
        )
    return folder


def natural(text: str) -> int:
    """Return an integer of at least 0, as the `type` of an argument."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected an integer, 0 or more, got {text!r}")
    return int(text)


def checkpoint_step(text: str) -> StepChoice:
    """Return the step of a checkpoint, or `best`, as the `type` of an argument."""
    return "best" if text == "best" else natural(text)


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
        raise argparse.ArgumentTypeError(
            f"expected a number of bytes such as 5GB, 200MB or 4096, got '{text}'"
        )
    return int(match[1]) * _UNITS[match[2] or ""]


def add_settings(
    parser: Arguments, *schemas: type, help_text: str = "settings, listed below"
) -> None:
    """Add the words, as `options.overrides`, and a list of all keys of the schemas at the end of the help."""
    parser.add_argument("overrides", nargs="*", metavar="key=value", help=help_text)
    keys: dict[str, list[str]] = {}
    for key, *rest in (described for schema in schemas for described in describe(schema)):
        keys.setdefault(key, rest)
    listed = (f"  {key}: {kind} = {default}: {text}" for key, (kind, default, text) in keys.items())
    parser.epilog = "\n".join(("keys (key: type = default: meaning):", *listed))


def settings_of(schema: type[S], words: Sequence[str]) -> S:
    """Return the settings given by `key=value` words, or raise ConfigurationError for a wrong key or value."""
    allow_words(schema, words)
    settings: S = validate(schema, override(schema, {}, words, _ORIGIN), _ORIGIN)
    return settings


def split_settings(schema: type[S], words: Sequence[str]) -> tuple[S, list[str]]:
    """Return the settings among `key=value` words, and the words with other keys, for another program."""
    keys = fields_of(cast(Any, schema))
    own = [word for word in words if word.partition("=")[0] in keys]
    return settings_of(schema, own), [word for word in words if word not in own]


def run_tool(
    parser: Arguments,
    arguments: Sequence[str],
    action: Callable[[argparse.Namespace], int | None],
    *,
    prints: bool = False,
) -> int:
    """Parse, act and return the exit code; `prints`: the result of the tool is what it prints, see `run_command`."""

    def act() -> int:
        with stopping_at_signals():
            return action(parser.parse_args(arguments)) or 0

    return run_command(act, "interrupted: run the same command again", prints=prints)


def run_as_script(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a tool whose file was started, `python tools/shards/inspect_shard.py SET`, and exit with its code.

    Python puts the folder of such a file first on its path: `evaluate.py` there would hide the
    library of this name.
    """
    if not sys.flags.safe_path:
        del sys.path[0]
    raise SystemExit(main(sys.argv[1:]))
