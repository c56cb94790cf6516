"""Sorted runs of token documents: what lies between a part and the shards.

A run holds Arrow record batches without header or footer, in one or more *flushes*. A flush is sorted by (order, uid)
and cut by shard, so the documents of shard k are one piece of each flush. Reading shard k touches nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.pipeline.execution.exchange import Exchange
from clozeline.pipeline.execution.pieces import PieceWriter
from clozeline.pipeline.ingest.documents.document import Document

_FLUSH_BYTES: Final = 1 << 26
_ROW_BYTES: Final = 256
"""About what a document's identity and origin take, beside its tokens."""


def run_schema(id_dtype: Any) -> pa.Schema:
    """Return the columns of a run. `order` is the document's place among all, `order * shards >> 64` its shard."""
    ids = pa.from_numpy_dtype(id_dtype)
    return pa.schema(
        [
            pa.field("order", pa.uint64(), nullable=False),
            pa.field("uid", pa.binary(16), nullable=False),
            pa.field("token_ids", pa.large_list(ids), nullable=False),
            pa.field("sentence_starts", pa.large_list(pa.uint32()), nullable=False),
            pa.field("target_ids", pa.large_list(ids), nullable=False),
            pa.field("target_language", pa.utf8()),
            pa.field("language", pa.utf8(), nullable=False),
            pa.field("source_group", pa.utf8(), nullable=False),
            pa.field("source", pa.utf8(), nullable=False),
            pa.field("offset", pa.uint64(), nullable=False),
            pa.field("length", pa.uint64(), nullable=False),
            pa.field("url", pa.utf8()),
        ]
    )


class RunWriter:
    """Collects documents and writes a flush whenever about 64 MiB are held.

    Args:
        writer: takes the pieces of all shards, flush by flush.
        id_dtype: numpy type of token ids.
        shards: number of shards of the token set.
    """

    def __init__(self, writer: PieceWriter, id_dtype: Any, shards: int) -> None:
        self._writer = writer
        self._schema = run_schema(id_dtype)
        self._shards = shards
        self._rows: list[tuple[Any, ...]] = []
        self._held = 0

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
        self._held += ids.nbytes + sentence_starts.nbytes + target_ids.nbytes + _ROW_BYTES
        if self._held >= _FLUSH_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is held, and the index."""
        if self._rows:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        self._rows.sort(key=lambda row: row[:2])
        shard_of = [row[0] * self._shards >> 64 for row in self._rows]
        bounds = np.searchsorted(shard_of, np.arange(self._shards + 1)).tolist()
        for first, last in pairwise(bounds):
            self._writer.add([self._batch(self._rows[first:last]).serialize()] if first < last else [])
        self._rows, self._held = [], 0

    def _batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        columns = zip(*rows, strict=True)
        arrays = [
            _lists(values, field.type) if pa.types.is_large_list(field.type) else pa.array(values, field.type)
            for field, values in zip(self._schema, columns, strict=True)
        ]
        return pa.record_batch(arrays, schema=self._schema)


def _lists(values: Sequence[NDArray[Any]], kind: pa.DataType) -> pa.Array:
    offsets = np.cumsum([0, *(len(value) for value in values)], dtype=np.int64)
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(np.concatenate(values), kind.value_type))


def read_range(folder: Path, runs: Exchange, shard: int, id_dtype: Any) -> list[pa.RecordBatch]:
    """Return the documents of one shard from all runs: one batch for each flush that has any.

    Raises:
        StorageError: a run is missing.
        IntegrityError: a run is not what was written.
    """
    schema = run_schema(id_dtype)
    batches = []
    for piece in runs.read(folder, shard):
        source = pa.BufferReader(piece)
        while source.tell() < len(piece):
            batches.append(pa.ipc.read_record_batch(pa.ipc.read_message(source), schema))
    return batches
