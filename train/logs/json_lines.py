"""Read the JSON lines files of a run, completely or from the end."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from clozeline.checksummed_json import verify_checksum
from clozeline.errors import StorageError
from clozeline.files import parse_json

RecordT = TypeVar("RecordT", bound=Mapping[str, Any])

_READ: Final = 1 << 16
"""Bytes that `last_lines` reads at once."""


class Line(NamedTuple):
    """A line of a file: byte range, and its record; None: truncated or damaged."""

    start: int
    stop: int
    record: dict[str, Any] | None


def records(path: Path) -> Iterator[dict[str, Any] | None]:
    """Yield each record of a JSON lines file, None for a torn or damaged line; nothing if the file is missing.

    A line of a newer version is a NewerFormatError.
    """
    try:
        with path.open("rb") as file:
            for line in file:
                if line.strip():
                    yield _parse(line, path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(path, error) from error


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return all `records` but damaged ones."""
    return [record for record in records(path) if record is not None]


def step_records(records: Iterable[RecordT]) -> list[RecordT]:
    """Return those records of metrics.jsonl that are of steps; an evaluation is a line of its own, without a loss."""
    return [record for record in records if "loss" in record]


def unreadable_lines(path: Path) -> int:
    """Return the number of lines that `read_lines` skips, without blank ones."""
    return sum(record is None for record in records(path))


def last_lines(path: Path) -> Iterator[Line]:
    """Yield the lines of a JSON lines file from last to first, without blank ones.

    Reads lazily: the records of a long run take minutes to parse.
    """
    try:
        with path.open("rb") as file:
            start = file.seek(0, os.SEEK_END)
            read = b""  # the bytes from `start` on that have not been yielded
            while start or read:
                # take the last line of the buffer; read more of the file if it is incomplete
                before = read.rfind(
                    b"\n", 0, max(0, len(read) - 1)
                )  # the end of the line before the last one
                if before < 0 and start:
                    size = min(_READ, start)
                    start = file.seek(start - size)
                    read = file.read(size) + read
                    continue
                line = read[before + 1 :]
                read = read[: before + 1]
                if line.strip():
                    yield Line(start + len(read), start + len(read) + len(line), _parse(line, path))
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
    how = "move it away, a start of the run begins it again"
    return StorageError(f"{path}: cannot be read ({error.strerror or error}); {how}")
