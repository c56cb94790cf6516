"""Standard output and error of a command: messages that cannot be written are lost, and the work goes on.

The terminal may be closed, the disk of a log full, the reader of a pipe gone, or no descriptor open. Only a command
whose result is what it prints ends then.
"""

import errno
import os
import sys
from pathlib import Path
from typing import Any, Final

from clozeline.errors import StorageError

READER_GONE: Final = 141
"""Exit code of a command whose reader, such as `head`, left before the end: a shell's code for a death by SIGPIPE."""


class ReaderGone(Exception):
    """Nobody reads the rest of a result."""


class _Stream:
    """A text stream that loses what cannot be written, unless it `is_result`; after the first error it is none."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.is_result = stream, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        try:
            self._stream.write(text)
        except OSError as error:
            self._lose(error)
        return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError as error:
            self._lose(error)

    def _lose(self, error: OSError) -> None:
        if self.is_result:
            self.is_result = False
            if error.errno == errno.EPIPE:
                raise ReaderGone from error
            raise StorageError(f"standard output: {error.strerror}; the result is incomplete") from error


def guard_streams(*, result: bool = False) -> None:
    """Let this process lose messages that cannot be written; a `result` on standard output must be written."""
    # a descriptor that the caller closed: the next file that is opened would receive what libraries and children print
    while (free := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(free, True)
    os.close(free)
    for name, is_result in (("stdout", result), ("stderr", False)):
        stream = getattr(sys, name)
        if stream is None:
            stream = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
        elif stream is getattr(sys, f"__{name}__"):
            if stream.errors == "strict":  # no character is worth the end of the work
                stream.reconfigure(errors="backslashreplace")
            stream = _Stream(stream)
        if isinstance(stream, _Stream):
            stream.is_result = is_result
        setattr(sys, name, stream)
