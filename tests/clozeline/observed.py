"""The files that a command opens, as this process sees them."""

import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

from clozeline.recorded_file import RecordedFile

_opened = None


def _note(event, arguments):
    if event == "open" and _opened is not None and isinstance(arguments[0], str) and "w" not in (arguments[1] or ""):
        _opened.append(Path(arguments[0]))


@cache
def _listen():
    """Hear of every file that is opened, from the first command on: such a hook stays, and slows down what follows."""
    sys.addaudithook(_note)


@contextmanager
def reading():
    """Note the files that are opened; those that Arrow maps are noted where their hash is compared."""
    global _opened
    _listen()
    real, _opened = RecordedFile.buffer, []
    found = _opened
    with mock.patch.object(RecordedFile, "buffer", lambda self: (found.append(self.path), real(self))[1]):
        yield found
    _opened = None
