"""Sorted runs of token documents, which are shuffled from parts to shards.

A run consists of *flushes*, record batches of Arrow sorted by (order, uid), so the documents of
shard k are a slice of each flush. A piece is this slice as a message of Arrow; it takes about 1 kB
more than its documents.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from clozeline.pipeline.execution.shuffle import PieceWriter
from clozeline.pipeline.ingest.documents.document import Document

_FLUSH_BYTES: Final = 1 << 26
_TABLE_BYTES: Final = 1 << 23
_ROW_BYTES: Final = 256
"""approximate bytes of identity and origin of a document, in addition to its tokens"""


def run_schema(id_dtype: object, *, words: bool = False, extra: bool = False) -> pa.Schema:
    """Return the columns of a run.

    `order` is the sort key of a document, and `order * shards >> 64` its shard. With `words` there
    are word starts from segmenters, with `extra` the declared columns of documents.
    """
    ids = pa.from_numpy_dtype(id_dtype)
    types = {
        "order": pa.uint64(),
        "uid": pa.binary(16),
        "token_ids": pa.large_list(ids),
        "sentence_starts": pa.large_list(pa.uint32()),
        "target_ids": pa.large_list(ids),
        "target_language": pa.utf8(),
        "language": pa.utf8(),
        "source_group": pa.utf8(),
        "source": pa.utf8(),
        "offset": pa.uint64(),
        "length": pa.uint64(),
        "url": pa.utf8(),
        "id": pa.utf8(),
        **({"word_starts": pa.large_list(pa.uint32())} if words else {}),
        **({"extra": pa.utf8()} if extra else {}),
    }

    optional = ("target_language", "url", "id", "extra")
    return pa.schema([pa.field(name, type_, name in optional) for name, type_ in types.items()])


class RunWriter:
    """Buffers documents; writes a flush of about 64 MiB, in a piece per shard, when it is full."""

    def __init__(
        self,
        writer: PieceWriter,
        id_dtype: Any,
        shards: int,
        *,
        words: bool = False,
        extra: Sequence[str] = (),
    ) -> None:
        self._writer = writer
        self._extra = extra
        self._schema = run_schema(id_dtype, words=words, extra=bool(extra))
        self._shards = shards
        self._rows: list[tuple[object, ...]] = []
        self._buffered = 0

    def add(
        self,
        document: Document,
        order: int,
        ids: NDArray[Any],
        sentence_starts: NDArray[np.uint32],
        target_ids: NDArray[np.generic],
        word_starts: NDArray[np.uint32] | None = None,
    ) -> None:
        """Add a token document."""
        other_side = (target_ids, (document.target_language or "und") if len(target_ids) else None)
        origin = (
            document.language,
            document.source_group,
            document.source,
            document.offset,
            document.length,
            document.url,
            document.record_id,
        )

        words = () if word_starts is None else (word_starts,)
        declared = (self._select_extra(document),) if self._extra else ()

        parts = (ids, sentence_starts, *other_side, *origin, *words, *declared)
        self._rows.append((order, document.uid, *parts))
        self._buffered += (
            sum(array.nbytes for array in (ids, sentence_starts, target_ids, *words)) + _ROW_BYTES
        )
        if self._buffered >= _FLUSH_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the documents that are still in the buffer."""
        if self._rows:
            self._flush()

    def _select_extra(self, document: Document) -> str | None:
        """Return the declared keys of a document as a JSON object; None if it has none of them."""
        extra = document.extra
        chosen = {key: extra[key] for key in self._extra if extra.get(key) is not None}
        return json.dumps(chosen, sort_keys=True, ensure_ascii=False) if chosen else None

    def _flush(self) -> None:
        rows = sorted(self._rows, key=lambda row: row[:2])
        self._rows = []
        self._buffered = 0
        self._write(rows)

    def _write(self, rows: list[tuple[Any, ...]]) -> None:
        """Write sorted rows as one record batch; each shard gets a slice of it."""
        columns = zip(self._schema, zip(*rows, strict=True), strict=True)
        batch = pa.record_batch(
            [pa.array(values, field.type) for field, values in columns], schema=self._schema
        )
        shard_of = [row[0] * self._shards >> 64 for row in rows]
        for first, last in pairwise(
            np.searchsorted(shard_of, np.arange(self._shards + 1)).tolist()
        ):
            # a copy: a slice is padded with values of its neighbor, on which no hash may depend
            copied = batch.take(pa.array(range(first, last), pa.int64()))
            self._writer.add([copied.serialize()] if first < last else [])


def read_range(pieces: Iterable[tuple[int, bytes]], schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return the documents of a shard from the pieces of all runs, one batch per flush with any.

    `schema` is the result of `run_schema`.
    """
    batches = []
    for _, piece in pieces:
        source = pa.BufferReader(piece)
        while source.tell() < len(piece):  # the piece of a bundle has a message for each flush
            batches.append(pa.ipc.read_record_batch(pa.ipc.read_message(source), schema))
    return batches


def sort_runs(
    batches: Sequence[pa.RecordBatch], schema: pa.Schema, shard: int, shards: int
) -> Iterator[pa.Table]:
    """Yield the documents of a shard sorted by (order, uid), in tables of about 8 MiB.

    A table holds a range of `order`, whose documents are a slice of each sorted batch.
    """
    size = sum(batch.nbytes for batch in batches)
    tables = max(1, -(-size // _TABLE_BYTES))
    edges = [((shard * tables + index << 64) // (shards * tables)) for index in range(tables + 1)]
    inner = np.array(edges[1:-1], np.uint64)
    cuts = [
        [0, *np.searchsorted(batch.column("order").to_numpy(), inner).tolist(), len(batch)]
        for batch in batches
    ]
    for index in range(tables):
        parts = [
            batch.slice(bounds[index], bounds[index + 1] - bounds[index])
            for batch, bounds in zip(batches, cuts, strict=True)
        ]
        table = pa.Table.from_batches(parts, schema=schema).combine_chunks()
        yield table.sort_by([("order", "ascending"), ("uid", "ascending")])
