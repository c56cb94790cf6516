"""Use regular expressions of users: one message about mistakes, and a limit of their time."""

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from clozeline.errors import ConfigurationError

_LIMIT_S: Final = 5.0
_LIMIT_S_PER_CHARACTER: Final = 1e-6


def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Return a compiled expression, for which `^` matches each line; ValueError if it is none."""
    try:
        return re.compile(pattern, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"expected a regular expression, got {pattern!r}: {error}") from error


@contextmanager
def use_pattern(key: str, pattern: str, characters: int = 0) -> Iterator[re.Pattern[str]]:
    """Yield a compiled expression, and end a block that takes seconds of CPU time.

    A search with repetitions in repetitions, as in `(a+)+$`, takes twice as long for each further
    character. Only the main thread can end it.

    Args:
        key: the key of the expression in messages.
        pattern: the expression.
        characters: of all texts that are searched.

    Raises:
        ConfigurationError: it is no regular expression, or takes too long.
    """
    try:
        expression = compile_pattern(pattern)
    except ValueError as error:
        raise ConfigurationError(f"{key}: {error}") from error
    if threading.current_thread() is not threading.main_thread():
        yield expression
        return

    seconds = _LIMIT_S + _LIMIT_S_PER_CHARACTER * characters

    def stop(number: int, frame: FrameType | None) -> None:
        raise ConfigurationError(
            f"{key}: {pattern!r} takes more than {seconds:.0f} s of CPU time for one text; write "
            "it without repetitions inside repetitions, such as (a+)+"
        )

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield expression
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
