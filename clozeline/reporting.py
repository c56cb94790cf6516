"""Turn exceptions while reporting into warnings, so that they never end the work."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from clozeline.errors import message_text


class Reporting:
    """Guards parts of reporting: an exception becomes one warning per part, and the work continues.

    Args:
        outcome: the end of the warning, about the work.
        passed: errors that are raised, because their messages tell the user what to do.
    """

    def __init__(
        self,
        outcome: str = "training continues without it",
        passed: tuple[type[Exception], ...] = (),
    ) -> None:
        self._outcome = outcome
        self._passed = passed
        self._failed: set[str] = set()

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Guard a block that reports `part`; it must not contain collectives."""
        try:
            yield
        except self._passed:
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the work does not need the report
            if part not in self._failed:
                self._failed.add(part)
                with suppress(OSError, ValueError):  # stderr may be closed
                    text = f"warning: {part}: {type(error).__name__}: {error}; {self._outcome}\n"
                    sys.stderr.write(message_text(text))
