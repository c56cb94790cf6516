"""Read the JSON lines files of a run, completely or from the end."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from clozeline.checksummed_json import verify_checksum
from clozeline.errors import StorageError
from clozeline.files import open_regular, parse_json

RecordT = TypeVar("RecordT", bound=Mapping[str, Any])

_READ_BYTES: Final = 1 << 16
"""Bytes that `last_lines` reads at once."""


class Line(NamedTuple):
    """A line of a file: its byte range and its record."""

    start: int
    stop: int
    record: dict[str, Any] | None
    """None if the line is truncated or damaged"""


def records(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield each record of a JSON lines file; nothing if the file is missing.

    A truncated or damaged line yields None.

    Raises:
        NewerFormatError: a line of a newer version.
    """
    try:
        with open_regular(path) as file:
            for line in file:
                if line.strip():
                    yield _parse(line, path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(path, error) from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return all `records` except damaged ones."""
    return [record for record in records(path) if record is not None]


def step_records(records: Iterable[RecordT]) -> list[RecordT]:
    """Return the records of steps in metrics.jsonl; records of evaluations have no loss."""
    return [record for record in records if "loss" in record]


def last_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a JSON lines file from last to first, without blank ones.

    Reads lazily: the records of a long run take minutes to parse.
    """
    try:
        with open_regular(path) as file:
            start = file.seek(0, os.SEEK_END)
            buffer = b""  # the bytes from `start` on that have not been yielded
            while start or buffer:
                # take the last line of the buffer; read more of the file if it is incomplete
                previous_end = buffer.rfind(b"\n", 0, max(0, len(buffer) - 1))
                if previous_end < 0 and start:
                    size = min(_READ_BYTES, start)
                    start = file.seek(start - size)
                    buffer = file.read(size) + buffer
                    continue
                line = buffer[previous_end + 1 :]
                buffer = buffer[: previous_end + 1]
                if line.strip():
                    first = start + len(buffer)
                    yield Line(first, first + len(line), _parse(line, path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(path, error) from error


def _parse(line: bytes, path: Path) -> dict[str, object] | None:
    try:
        return verify_checksum(parse_json(line), path)
    except ValueError:  # also for invalid UTF-8
        return None


def _unreadable(path: Path, error: OSError) -> StorageError:
    remedy = "move it away; the next start of the run begins a new file"
    return StorageError(f"{path}: cannot be read ({error.strerror or error}); {remedy}")
