"""Read the JSON lines files of a run, completely or from the end."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from clozeline.errors import StorageError
from clozeline.files import parse_json
from clozeline.sealed_json import unseal

_READ: Final = 1 << 16
"""Bytes that `last_lines` reads at once."""


class Line(NamedTuple):
    """A line of a file: byte range, and its record; None: truncated or damaged."""

    start: int
    stop: int
    record: dict[str, Any] | None


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the records of a JSON lines file, without damaged lines; empty if the file is missing.

    A line of a newer version is a NewerFormatError.
    """
    return _read(path)[0]


def unreadable_lines(path: Path) -> int:
    """Return the number of lines that `read_lines` skips, without blank ones."""
    return _read(path)[1]


def first_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of `read_lines` lazily."""
    with path.open("rb") as file:
        for line in file:
            if (record := _parse(line, path)) is not None:
                yield record


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
                before = read.rfind(b"\n", 0, max(0, len(read) - 1))  # the end of the line before the last one
                if before < 0 and start:
                    size = min(_READ, start)
                    start = file.seek(start - size)
                    read = file.read(size) + read
                    continue
                line, read = read[before + 1 :], read[: before + 1]
                if line.strip():
                    yield Line(start + len(read), start + len(read) + len(line), _parse(line, path))
    except FileNotFoundError:
        return
    except OSError as error:
        raise _unreadable(path, error) from error


def _read(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the records of a JSON lines file, and the number of other lines, without blank ones."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise _unreadable(path, error) from error
    records = [_parse(line, path) for line in content.split(b"\n") if line.strip()]
    lines = [record for record in records if record is not None]
    return lines, len(records) - len(lines)


def _parse(line: bytes, path: Path) -> dict[str, Any] | None:
    try:
        return unseal(parse_json(line), path)
    except ValueError:  # also for invalid UTF-8
        return None


def _unreadable(path: Path, error: OSError) -> StorageError:
    how = "move it away, a start of the run begins it again"
    return StorageError(f"{path}: cannot be read ({error.strerror or error}); {how}")
