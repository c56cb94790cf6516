"""Sorted runs of token documents, exchanged between the parts and the shards.

A run is written in one or more *flushes*, each sorted by (order, uid), so the documents of shard k are one contiguous
piece of each flush. A piece holds the number of its rows and the bytes of each array, then the arrays: the values of a
fixed column; the lengths of the rows of another one (0xffffffff: none), then their values. Pieces are slices of the
columns of a flush, so a shard that gets a single document of it costs some microseconds and some hundred bytes.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.execution.pieces import PieceWriter
from clozeline.pipeline.ingest.documents.document import Document
from clozeline.pipeline.kernels.sampling import offsets_of

_FLUSH_BYTES: Final = 1 << 26
_ROW_BYTES: Final = 256
"""Approximate bytes of a document's identity and origin, in addition to its tokens."""
_HEADER: Final = struct.Struct("<21I")
"""Rows, and the bytes of 20 arrays: 4 columns are fixed, 8 are ragged."""
_NONE: Final = 0xFFFFFFFF
"""Length of a value that is null."""
_ARROW: Final = b"\xff\xff\xff\xff"
"""First bytes of an Arrow record batch: pieces of runs that an earlier version wrote."""


def run_schema(id_dtype: Any) -> pa.Schema:
    """Return the columns of a run. `order` is the sort key of a document, `order * shards >> 64` its shard."""
    ids = pa.from_numpy_dtype(id_dtype)
    types = {
        "order": pa.uint64(), "uid": pa.binary(16), "token_ids": pa.large_list(ids),
        "sentence_starts": pa.large_list(pa.uint32()), "target_ids": pa.large_list(ids), "target_language": pa.utf8(),
        "language": pa.utf8(), "source_group": pa.utf8(), "source": pa.utf8(), "offset": pa.uint64(),
        "length": pa.uint64(), "url": pa.utf8(),
    }  # fmt: skip
    return pa.schema([pa.field(name, kind, name in ("target_language", "url")) for name, kind in types.items()])


def _value_dtype(field: pa.Field) -> tuple[np.dtype[Any], bool]:
    """Return the type of a column's values, and whether a row has many of them."""
    if pa.types.is_large_list(field.type):
        return np.dtype(field.type.value_type.to_pandas_dtype()), True
    if pa.types.is_string(field.type):
        return np.dtype(np.uint8), True
    return (np.dtype("V16"), False) if field.name == "uid" else (np.dtype("<u8"), False)


class RunWriter:
    """Buffers documents and writes a flush of about 64 MiB, a piece per shard, whenever the buffer is full."""

    def __init__(self, writer: PieceWriter, id_dtype: Any, shards: int) -> None:
        self._writer = writer
        self._schema = run_schema(id_dtype)
        self._shards = shards
        self._rows: list[tuple[Any, ...]] = []
        self._buffered = 0

    def add(
        self,
        document: Document,
        order: int,
        ids: NDArray[Any],
        sentence_starts: NDArray[np.uint32],
        target_ids: NDArray[Any],
    ) -> None:
        """Add a token document."""
        other_side = (target_ids, (document.target_language or "und") if len(target_ids) else None)
        origin = (document.language, document.source_group, document.source, document.offset, document.length)
        self._rows.append((order, document.uid, ids, sentence_starts, *other_side, *origin, document.url))
        self._buffered += ids.nbytes + sentence_starts.nbytes + target_ids.nbytes + _ROW_BYTES
        if self._buffered >= _FLUSH_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the rest of the buffer and the index."""
        if self._rows:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        self._rows.sort(key=lambda row: row[:2])
        self._write(self._rows)
        self._rows, self._buffered = [], 0

    def _write(self, rows: Sequence[tuple[Any, ...]]) -> None:
        """Write sorted rows: their columns once, of which each shard gets a slice."""
        columns: list[tuple[memoryview, Sequence[int]]] = []  # bytes, and where those of each row start
        for field, values in zip(self._schema, zip(*rows, strict=True), strict=True):
            columns += _column_bytes(field, values)
        shard_of = [row[0] * self._shards >> 64 for row in rows]
        bounds = np.searchsorted(shard_of, np.arange(self._shards + 1)).tolist()
        for first, last in pairwise(bounds):
            parts = [content[starts[first] : starts[last]] for content, starts in columns] if first < last else []
            self._writer.add([b"".join([_HEADER.pack(last - first, *map(len, parts)), *parts])] if parts else [])


def _column_bytes(field: pa.Field, values: Sequence[Any]) -> list[tuple[memoryview, Sequence[int]]]:
    """Return the stored bytes of a column and the start of each row; lengths and values if it is ragged."""
    dtype, ragged = _value_dtype(field)
    if not ragged:
        content = b"".join(values) if field.name == "uid" else np.array(values, dtype).tobytes()
        return [(memoryview(content), range(0, len(content) + 1, dtype.itemsize))]
    rows: Sequence[Any] = values
    if pa.types.is_string(field.type):
        rows = [b"" if value is None else value.encode() for value in values]
        flat = b"".join(rows)
    else:
        flat = np.concatenate(values).astype(dtype, copy=False).tobytes()
    sizes = np.array([len(row) for row in rows], np.int64)
    lengths = np.where([value is None for value in values], _NONE, sizes).astype("<u4").tobytes()
    starts = (offsets_of(sizes) * dtype.itemsize).tolist()
    return [(memoryview(lengths), range(0, len(lengths) + 1, 4)), (memoryview(flat), starts)]


def read_range(folder: Path, runs: Exchange, shard: int, id_dtype: Any) -> list[pa.RecordBatch]:
    """Return the documents of one shard from all runs, a batch per piece that has any."""
    schema = run_schema(id_dtype)
    return [batch for piece in runs.read(folder, shard) for batch in _read_piece(piece, schema)]


def _read_piece(piece: bytes, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a piece; that of a bundle is several pieces, one after another."""
    arrays: list[list[memoryview]] = [[] for _ in range(_HEADER.size // 4 - 1)]
    content, position = memoryview(piece), 0
    while position < len(piece):
        if piece.startswith(_ARROW, position):
            source = pa.BufferReader(content[position:])
            yield pa.ipc.read_record_batch(pa.ipc.read_message(source), schema)
            position += source.tell()
            continue
        _, *sizes = _HEADER.unpack_from(piece, position)
        position += _HEADER.size
        for array, size in zip(arrays, sizes, strict=True):
            array.append(content[position : position + size])
            position += size
    if arrays[0]:
        joined = map(b"".join, arrays)
        yield pa.record_batch([_to_arrow(field, joined) for field in schema], schema=schema)


def _to_arrow(field: pa.Field, arrays: Iterator[bytes]) -> pa.Array:
    """Return a column from its next array, or two, in memory of its own."""
    dtype, ragged = _value_dtype(field)
    first = next(arrays)
    if not ragged:
        return pa.Array.from_buffers(field.type, len(first) // dtype.itemsize, [None, pa.py_buffer(first)])
    lengths, values = np.frombuffer(first, "<u4"), next(arrays)
    present = lengths != _NONE
    offsets = offsets_of(np.where(present, lengths, 0).astype(np.int64))
    if pa.types.is_large_list(field.type):
        return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(np.frombuffer(values, dtype)))
    null = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little").tobytes())
    content = [null, pa.py_buffer(offsets.astype("<i4").tobytes()), pa.py_buffer(values)]
    return pa.Array.from_buffers(field.type, len(lengths), content)
