"""Reports on a training never end it: an exception in one becomes a warning."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from clozeline.errors import message_text


class Reporting:
    """Parts of the reports on a run; an exception in one becomes a warning, once a part, and training continues."""

    def __init__(self) -> None:
        self._failed: set[str] = set()

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Run a block that reports, and no more: what it does on one rank must not be awaited by others."""
        try:
            yield
        except Exception as error:  # whatever it is: the training does not need it
            if part not in self._failed:
                self._failed.add(part)
                with suppress(OSError, ValueError):  # stderr may be closed
                    text = f"warning: {part}: {type(error).__name__}: {error}; training continues without it\n"
                    sys.stderr.write(message_text(text))
