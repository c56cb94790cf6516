"""What every command line shares: a parser, the list of keys, and errors as messages with exit codes."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from pathlib import Path
from typing import NoReturn

from rich.console import Console

from pipeline.errors import ClozelineError, ConfigurationError

__all__ = ["Parser", "guarded", "name_hiding_files", "print_keys", "program_name"]


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are configuration errors: one message, exit code 64."""

    def error(self, message: str) -> NoReturn:
        """Wrong use."""
        raise ConfigurationError(f"{message}; see --help")


def program_name(otherwise: str) -> str:
    """Return the name of this program in its help: `clozeline COMMAND` where it was started so."""
    return sys.argv[0] if sys.argv[0].startswith("clozeline ") else otherwise


def name_hiding_files() -> None:
    """Name the files that hide a package of ours, such as the user's own `train.py` in the working directory."""
    root = Path(__file__).resolve().parents[1]
    for name in ("model", "tools", "train"):
        spec = PathFinder.find_spec(name)
        if spec is not None and spec.origin is not None and not Path(spec.origin).resolve().is_relative_to(root):
            text = f"note: {spec.origin} hides {root / name} in programs started here; `clozeline` still finds ours\n"
            sys.stderr.write(text)


def print_keys(keys: Iterable[tuple[str, str, str, str]]) -> None:
    """Print the keys of a configuration, as `describe` yields them."""
    console = Console(width=120)
    console.print("\nkeys of the configuration (key: type = default: meaning):", highlight=False)
    for key, kind, default, text in keys:
        shown = f" = {default}" if default else ""
        console.print(f"  {key}: {kind}{shown}: {text}", highlight=False, markup=False)


def guarded(action: Callable[[], int]) -> int:
    """Run a command: a person's mistake becomes one message and its exit code, never a traceback."""
    try:
        return action()
    except ClozelineError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""  # none: the standard output, mostly
        sys.stderr.write(f"error: {where}{error.strerror or error}\n")
        return 74
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: finished units are kept, run the same command again to go on\n")
        return 130
    except Exception:
        traceback.print_exc()
        sys.stderr.write("this is a mistake in Clozeline, not in your configuration: please report the lines above\n")
        return 1
