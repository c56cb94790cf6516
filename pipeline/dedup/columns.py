"""Intermediate files of `dedup`: numpy columns in an uncompressed Arrow file, and rows dealt to ranges of hashes.

Rows are sorted by a hash, so each range is a contiguous slice.
"""

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
from clozeline.pipeline.execution.unit_record import Output, require_equal
from clozeline.recorded_file import RecordedFile

Columns = dict[str, NDArray[Any]]
Schema = Sequence[tuple[str, str]]
"""Names and numpy types of the fields of rows."""


def uid_column(values: list[bytes]) -> NDArray[np.bytes_]:
    """Return 16-byte uids as an array; numpy compares and sorts it as bytes."""
    return np.frombuffer(b"".join(values), dtype="S16")


def uid_bytes(column: NDArray[np.bytes_]) -> list[bytes]:
    """Return the uids as full 16 bytes each; numpy itself would strip trailing zero bytes."""
    raw = np.ascontiguousarray(column).tobytes()
    return [raw[start : start + 16] for start in range(0, len(raw), 16)]


def write_columns(path: Path, columns: Mapping[str, NDArray[Any]], parameters: Mapping[str, Any] | None = None) -> None:
    """Write arrays of equal length, shape [n] or [n, width], with the parameters they were computed with."""
    arrays, fields, layout = [], [], {}
    for name, values in columns.items():
        row_bytes = values.dtype.itemsize * int(np.prod(values.shape[1:]))
        buffer = pa.py_buffer(np.ascontiguousarray(values))
        arrays.append(pa.Array.from_buffers(pa.binary(row_bytes), len(values), [None, buffer]))
        fields.append(pa.field(name, pa.binary(row_bytes), nullable=False))
        layout[name] = [values.dtype.str, list(values.shape[1:])]
    metadata = {"layout": json.dumps(layout), "facts": json.dumps(dict(parameters or {}), sort_keys=True)}
    schema = pa.schema(fields, metadata=metadata)
    with path.open("wb") as file, pa.ipc.new_file(file, schema) as writer:
        writer.write_batch(pa.record_batch(arrays, schema=schema))


def pack_rows(schema: Schema, columns: Mapping[str, NDArray[Any]]) -> NDArray[Any]:
    """Return columns of equal length as packed rows, shape [n]."""
    rows = np.empty(len(columns[schema[0][0]]), np.dtype(list(schema)))
    for name, _ in schema:
        rows[name] = columns[name]
    return rows


def write_rows(output: Output, exchange: Exchange, source: int, rows: NDArray[Any], bounds: Sequence[int]) -> None:
    """Write the sorted rows of a source; destination k gets rows[bounds[k]:bounds[k + 1]]."""
    require_equal(f"dedup: {exchange.file(source)}", "rows", len(rows), "rows with a destination", bounds[-1])
    with exchange.write(output, source) as writer:
        for first, last in pairwise(bounds):
            writer.add([rows[first:last].tobytes()])


def read_rows(folder: Path, exchange: Exchange, destination: int, schema: Schema) -> NDArray[Any]:
    """Return the rows of a destination, in the order of the sources."""
    return np.frombuffer(b"".join(exchange.read(folder, destination)), np.dtype(list(schema)))


def read_columns(file: RecordedFile, parameters: Mapping[str, Any] | None = None) -> Columns:
    """Return the memory-mapped arrays of a file of `write_columns`; they must be made with the same parameters."""
    path = file.path
    try:
        with pa.ipc.open_file(file.buffer()) as reader:
            batch = reader.get_batch(0)
    except (pa.ArrowException, OSError) as error:
        raise IntegrityError(f"{path}: not an intermediate file of dedup ({error}); delete it and run again") from error
    metadata = {key.decode(): json.loads(value) for key, value in (batch.schema.metadata or {}).items()}
    if parameters is not None and metadata["facts"] != dict(parameters):
        raise IntegrityError(
            f"{path}: made with {metadata['facts']}, expected {dict(parameters)}; delete it and run again"
        )
    columns = {}
    for name, (dtype, shape) in metadata["layout"].items():
        buffer = batch.column(name).buffers()[1]
        values = np.frombuffer(buffer, dtype=dtype) if buffer is not None else np.empty(0, dtype)
        columns[name] = values[: len(batch) * int(np.prod(shape))].reshape(len(batch), *shape)
    return columns


def hash_bounds(hashes: NDArray[Any], ranges: int) -> list[int]:
    """Return where each range starts in the sorted hashes (uint64 or 16 bytes, big-endian), and the end.

    A hash belongs to the range floor(hash * ranges / 2**bits).
    """
    limits = [-(-(index << 8 * hashes.dtype.itemsize) // ranges) for index in range(ranges)]
    keys = limits if hashes.dtype == np.uint64 else [limit.to_bytes(16, "big") for limit in limits]
    return [*np.searchsorted(hashes, np.array(keys, hashes.dtype)).tolist(), len(hashes)]
