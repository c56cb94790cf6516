"""The command line of a tool that reads one trained model: `clozeline TOOL RUN [key=value ...]`."""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from clozeline.configuration.config import config_class
from clozeline.tools.command import (
    IntermixedArguments,
    add_settings,
    model_path,
    run_tool,
    settings_of,
)
from clozeline.tools.runs.data.run_sets import SET_PATHS_HELP, SetPaths, split_set_paths
from clozeline.train.configuration.checkpoint import StepChoice

S = TypeVar("S")


@config_class
class CheckpointChoice:
    """The checkpoint of a run to open."""

    step: StepChoice = None
    """step of the checkpoint; best: the one with the lowest held-out loss; default: the newest"""


def run_model_tool(
    description: str | None,
    arguments: Sequence[str],
    schema: type[S],
    action: Callable[[Path, S, SetPaths], None],
    *,
    reads_sets: bool = False,
) -> int:
    """Parse RUN and its settings, act and return the exit code.

    Args:
        description: of the tool, for its help.
        arguments: of the command line.
        schema: class of the settings.
        action: gets the folder, its settings, and where the sets of the run are now.
        reads_sets: the tool reads the sets of the run, which may be elsewhere now
            (`data.shards=MANIFEST`).
    """
    parser = IntermixedArguments(description)
    parser.add_argument(
        "run", type=model_path, metavar="RUN", help="a run, or a folder with a model"
    )
    more = f"; {SET_PATHS_HELP}" if reads_sets else ""
    add_settings(parser, schema, help_text=f"settings, listed below{more}")

    def act(parsed: argparse.Namespace) -> None:
        words: Sequence[str] = parsed.overrides
        paths = SetPaths()
        if reads_sets:
            paths, words = split_set_paths(words)
        action(parsed.run, settings_of(schema, words), paths)

    return run_tool(parser, arguments, act)
