"""Errors of a training run, with the exit codes that the pipeline's table leaves to the trainer.

0 done, 64 configuration, 65 integrity, 70 watchdog, 71 another rank was lost, 74 input or output, 75 stopped by a
signal with the state saved (a supervisor starts the same command again), 76 diverged, 77 out of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pipeline.errors import ClozelineError, ConfigurationError, IntegrityError, StorageError

WATCHDOG: Final = 70
"""Exit code of a process that the watchdog ended."""
PEER_LOST: Final = 71
"""Exit code of a rank that lost another one in the middle of a step."""
STOPPED: Final = 75
"""Exit code after a stop request: the state is saved, and the same command resumes from it."""


class CheckpointError(IntegrityError):
    """A checkpoint is torn, corrupted, or belongs to another run."""


class SaveError(StorageError):
    """A checkpoint could not be written `checkpoint.max_failures` times in a row."""


class DivergedError(ClozelineError):
    """Too many steps in a row had a gradient that is not finite."""

    exit_code = 76


class OutOfMemoryError(ClozelineError):
    """The model, its optimizer state or a batch does not fit."""

    exit_code = 77


class PeerError(ClozelineError):
    """An error that happened on one rank and ends the run on all of them, with that rank's exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@contextmanager
def reading_run(path: Path, key: str = "") -> Iterator[None]:
    """Name the way out where config.yaml of a run cannot be taken.

    Args:
        path: the file.
        key: of a configuration, that names the run; with a colon.

    Raises:
        ConfigurationError: for any ConfigurationError of the block.
    """
    try:
        yield
    except ConfigurationError as error:
        named = "" if str(path) in str(error) else f"{path}: "
        raise ConfigurationError(
            f"{key}{named}{error}\nthe start of a run writes this file: copy it back, or start the run again with the "
            "configuration that it was started with"
        ) from error


class StreamError(ClozelineError):
    """The stream is used after it was closed, or in a process forked from the one that opened it."""


class StateMismatch(ConfigurationError):
    """A saved position belongs to another stream.

    Args:
        field: key of the state that differs.
        saved: its value in the state.
        current: the value of this stream.
    """

    def __init__(self, field: str, saved: object, current: object) -> None:
        super().__init__(
            f"stream state: {field} was saved as {saved!r}, this run has {current!r}; "
            "continue with the saved one, or start in an empty output folder"
        )
        self.field = field
        self.saved = saved
        self.current = current

    def __reduce__(self) -> tuple[type[StateMismatch], tuple[str, object, object]]:
        return (StateMismatch, (self.field, self.saved, self.current))
