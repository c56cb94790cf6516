"""Runs of the pipeline that die by SIGKILL at the publication of a named file."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from clozeline.pipeline.execution.recipe_command import main
from tests.distributed import run_ranks


def killed(when: str, name: str, arguments: Sequence[str], folder: Path) -> None:
    """Run the pipeline in a process that dies `before` the rename to a path that ends in `name`, or `after` it.

    Args:
        when: `before` or `after`.
        name: end of the path.
        arguments: words of the command line.
        folder: where the process writes what it says.
    """
    done = run_ranks(1, _run_or_die, when, name, arguments, folder=folder)
    assert done.codes == [-signal.SIGKILL], (when, name, done.errors)


def _run_or_die(when: str, name: str, arguments: Sequence[str]) -> int:
    with die_at(when, name):
        return main(arguments)


@contextmanager
def die_at(when: str, name: str) -> Iterator[None]:
    """Kill this process `before` the rename to a path that ends in `name`, or `after` it."""
    rename = Path.replace

    def rename_or_die(self: Path, target: Path) -> Path:
        hit = str(target).endswith(name)
        if hit and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = rename(self, target)
        if hit and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    Path.replace = rename_or_die  # type: ignore[method-assign]
    try:
        yield
    finally:
        Path.replace = rename  # type: ignore[method-assign]
