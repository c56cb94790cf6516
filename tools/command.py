"""The command line of a tool: options by one config class, one error message, an exit code."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator

from clozeline.command import run_command, stopping_at_signals
from clozeline.command_line import asks_for_help, print_help, read_words
from clozeline.configuration.config import Natural as Natural
from clozeline.configuration.config import Positive as Positive
from clozeline.configuration.paths import OutputPath as OutputPath
from clozeline.configuration.paths import UserPath as UserPath
from clozeline.errors import ConfigurationError
from clozeline.hub import fetch_folder

Options = TypeVar("Options")


def find_model(source: Path | str) -> str:
    """Return the folder of a run or a model; `hf://org/name` is downloaded.

    A missing folder is refused here, before the libraries that models need are imported.
    """
    folder = fetch_folder(source).expanduser()
    if not folder.is_dir():
        raise ConfigurationError(
            f"{folder}: no such folder; expected a run, or a folder with a model"
        )
    return str(folder)


def require_file(path: Path) -> Path:
    """Return the path of a file; refuse any other path."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; name one that exists")
    return path


ModelPath: TypeAlias = Annotated[Path, BeforeValidator(find_model)]
"""Folder of a run or a model, or `hf://org/name`."""
InputFile: TypeAlias = Annotated[UserPath, AfterValidator(require_file)]
"""A file that a command reads."""


def run_tool(
    description: str | None,
    arguments: Sequence[str],
    schemas: type[Options] | tuple[type[Any], ...],
    action: Callable[[Options], int | None],
    *,
    prints: bool = False,
) -> int:
    """Read the command line, act, and return the exit code.

    Args:
        description: of the tool, for its help.
        arguments: the words of the command line.
        schemas: the config class of the options, or one for each mode, see `read_words`.
        action: gets the options.
        prints: the result of the tool is what it prints, see `run_command`.
    """

    def act() -> int:
        if asks_for_help(arguments):
            print_help(schemas, arguments, description)
            return 0
        with stopping_at_signals():
            return action(read_words(schemas, arguments, description)) or 0

    return run_command(act, "interrupted: run the same command again", prints=prints)


def run_as_script(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Run a tool whose file was started, and exit with its code.

    For example `python tools/shards/inspect_shard.py SET`.

    Python puts the folder of such a file first on its path: `evaluate.py` there would hide the
    library of this name.
    """
    if not sys.flags.safe_path:
        del sys.path[0]
    raise SystemExit(main(sys.argv[1:]))
