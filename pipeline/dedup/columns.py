"""Intermediate files of dedup: numpy columns in an uncompressed Arrow file, and rows dealt to ranges of hashes.

Rows are sorted by a hash, so those of a range are one contiguous slice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.errors import IntegrityError
from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.execution.pieces import PieceWriter
from clozeline.pipeline.execution.unit_record import Output, require_equal
from clozeline.recorded_file import RecordedFile

Columns = dict[str, NDArray[Any]]
Schema = Sequence[tuple[str, str]]
"""Names and numpy types of the columns of rows."""


def uid_column(values: list[bytes]) -> NDArray[np.bytes_]:
    """Return 16-byte identities as one array; numpy compares and sorts such arrays as bytes."""
    return np.frombuffer(b"".join(values), dtype="S16")


def uid_bytes(column: NDArray[np.bytes_]) -> list[bytes]:
    """Return the identities as full 16 bytes each; numpy itself would strip trailing zero bytes."""
    raw = np.ascontiguousarray(column).tobytes()
    return [raw[start : start + 16] for start in range(0, len(raw), 16)]


def write_columns(path: Path, columns: Mapping[str, NDArray[Any]], facts: Mapping[str, Any] | None = None) -> None:
    """Write arrays of equal length, shape [n] or [n, width], with the facts under which they were made."""
    arrays, fields, layout = [], [], {}
    for name, values in columns.items():
        row_bytes = values.dtype.itemsize * int(np.prod(values.shape[1:]))
        buffer = pa.py_buffer(np.ascontiguousarray(values))
        arrays.append(pa.Array.from_buffers(pa.binary(row_bytes), len(values), [None, buffer]))
        fields.append(pa.field(name, pa.binary(row_bytes), nullable=False))
        layout[name] = [values.dtype.str, list(values.shape[1:])]
    metadata = {"layout": json.dumps(layout), "facts": json.dumps(dict(facts or {}), sort_keys=True)}
    schema = pa.schema(fields, metadata=metadata)
    with path.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))


def rows_of(schema: Schema, columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return columns of equal length as rows, shape [n], without gaps between the fields."""
    rows = np.empty(len(columns[schema[0][0]]), np.dtype(list(schema)))
    for name, _ in schema:
        rows[name] = columns[name]
    return rows


def write_rows(output: Output, exchange: Exchange, source: int, rows: NDArray[Any], bounds: Sequence[int]) -> None:
    """Write sorted rows as the pieces of a source; destination k gets rows[bounds[k]:bounds[k + 1]]."""
    relative = exchange.file(source)
    require_equal(f"dedup: {relative}", "rows", len(rows), "rows with a destination", bounds[-1])
    with output.file(relative) as path, path.open("wb") as sink:
        writer = PieceWriter(sink, relative)
        for first, last in pairwise(bounds):
            writer.add([rows[first:last].tobytes()])
        writer.close()


def read_rows(folder: Path, exchange: Exchange, destination: int, schema: Schema) -> NDArray[Any]:
    """Return the rows of a destination, in the order of the sources."""
    return np.frombuffer(b"".join(exchange.read(folder, destination)), np.dtype(list(schema)))


def read_columns(file: RecordedFile, facts: Mapping[str, Any] | None = None) -> Columns:
    """Return the arrays of a file, read-only and mapped.

    Args:
        file: a file of `write_columns`.
        facts: facts under which the file must have been made.

    Raises:
        StorageError: the file is missing.
        IntegrityError: it is not such a file, not what its record says, or was made under other facts.
    """
    path = file.path
    try:
        with pa.ipc.open_file(file.buffer()) as reader:
            batch = reader.get_batch(0)
    except (pa.ArrowException, OSError) as error:
        raise IntegrityError(f"{path}: not an intermediate file of dedup ({error}); delete it and run again") from error
    metadata = {key.decode(): json.loads(value) for key, value in (batch.schema.metadata or {}).items()}
    if facts is not None and metadata["facts"] != dict(facts):
        raise IntegrityError(f"{path}: made with {metadata['facts']}, expected {dict(facts)}; delete it and run again")
    columns = {}
    for name, (dtype, shape) in metadata["layout"].items():
        buffer = batch.column(name).buffers()[1]
        values = np.frombuffer(buffer, dtype=dtype) if buffer is not None else np.empty(0, dtype)
        columns[name] = values[: len(batch) * int(np.prod(shape))].reshape(len(batch), *shape)
    return columns


def hash_bounds(hashes: NDArray[Any], ranges: int) -> list[int]:
    """Return where each range begins in sorted hashes, and their number, `ranges` + 1 values."""
    return [_lower_bound(hashes, index, ranges) for index in range(ranges + 1)]


def range_slice(hashes: NDArray[Any], index: int, ranges: int) -> slice:
    """Return where hash range `index` of `ranges` lies in sorted hashes, uint64 or 16 bytes big-endian.

    A hash belongs to the range floor(hash * ranges / 2**bits).
    """
    first, last = (_lower_bound(hashes, number, ranges) for number in (index, index + 1))
    return slice(first, last)


def _lower_bound(hashes: NDArray[Any], index: int, ranges: int) -> int:
    if index == ranges:
        return len(hashes)
    bits = 8 * hashes.dtype.itemsize
    bound = -(-(index << bits) // ranges)
    key = np.uint64(bound) if hashes.dtype == np.uint64 else np.bytes_(bound.to_bytes(16, "big"))
    return int(np.searchsorted(hashes, key))
