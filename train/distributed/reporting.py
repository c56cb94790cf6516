"""Turn exceptions while reporting into warnings, so that they never end a training run."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from clozeline.errors import message_text


class Reporting:
    """Guards parts of reporting; an exception becomes one warning per part, and training continues."""

    def __init__(self) -> None:
        self._failed: set[str] = set()

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Guard a block that reports `part`; it must not contain collectives."""
        try:
            yield
        except Exception as error:  # whatever it is, training does not need it
            if part not in self._failed:
                self._failed.add(part)
                with suppress(OSError, ValueError):  # stderr may be closed
                    text = f"warning: {part}: {type(error).__name__}: {error}; training continues without it\n"
                    sys.stderr.write(message_text(text))
