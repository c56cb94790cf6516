"""Token documents of a shard, split in training and held-out ones, in the order that grouping takes them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import Ragged, RowBatch
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.column_set import WORD_STARTS
from clozeline.pipeline.shards.layout import is_heldout, shard_of
from clozeline.seeding import order_key

_COLUMNS = ("token_ids", "sentence_starts")
# Columns of token sets that hold aligned texts, and of those whose words segmenters found.
_FURTHER = ("target_ids", "target_language", WORD_STARTS.name)


def train_documents(tokens: Path, shard: int, fraction: float, seed: int) -> RowBatch:
    """Return the documents of a token shard that are not held out, of a token set's manifest or folder."""
    return _read(tokens, [shard], seed, lambda uid: not is_heldout(uid, fraction, seed))


def heldout_documents(
    tokens: Path, shard: int, shards: int, fraction: float, seed: int
) -> RowBatch:
    """Return the held-out documents of the token shards whose order falls in range `shard` of `shards`."""
    total = len(open_shards(tokens).manifest.shards)
    first = shard * total // shards
    last = -(-(shard + 1) * total // shards)

    def is_in_shard(uid: bytes) -> bool:
        return is_heldout(uid, fraction, seed) and shard_of(uid, shards, seed) == shard

    return _read(tokens, range(first, last), seed, is_in_shard)


def document_order_key(uid: bytes, copy: int, seed: int) -> int:
    """Return the word by which the documents of a shard are ordered before they are grouped."""
    return order_key(uid + bytes([copy]), "group", seed)


def _read(
    tokens: Path, shards: Sequence[int], seed: int, is_in_shard: Callable[[bytes], bool]
) -> RowBatch:
    token_set = open_shards(tokens)
    parts = []
    for block in np.flatnonzero(np.isin(token_set.index.shard, shards)).tolist():
        rows = token_set.read_block(block)
        parts.append(
            pick(
                rows,
                np.flatnonzero([is_in_shard(uid.tobytes()) for uid in rows.fixed["document_uid"]]),
            )
        )
    if not parts:
        fixed: dict[str, NDArray[Any]] = {
            "document_uid": np.empty((0, 16), np.uint8),
            "language": np.empty(0, np.uint8),
            "source_group": np.empty(0, np.uint16),
        }
        ids = np.uint16 if token_set.manifest.tokenizer.vocab_size <= 65536 else np.uint32
        starts = Ragged.from_lists([], np.uint32)
        columns = {"token_ids": Ragged.from_lists([], ids), "sentence_starts": starts}
        if WORD_STARTS.name in token_set.manifest.roles:
            columns[WORD_STARTS.name] = starts
        parts = [RowBatch(fixed, columns)]
    documents = RowBatch.concatenate(parts)
    return with_copies(documents, np.ones(len(documents), np.int64), seed)


def with_copies(documents: RowBatch, copies: Int64, seed: int) -> RowBatch:
    """Return so many copies of each document, 0 to 255, ordered by a keyed word of uid and copy."""
    rows = np.repeat(np.arange(len(documents)), copies)
    copy = np.arange(len(rows)) - np.repeat(offsets_of(copies)[:-1], copies)
    uids = documents.fixed["document_uid"]
    keys = [
        document_order_key(uids[row].tobytes(), number, seed)
        for row, number in zip(rows.tolist(), copy.tolist(), strict=True)
    ]
    order = np.argsort(np.array(keys, dtype=np.uint64), kind="stable")
    picked = pick(documents, rows[order])
    return RowBatch({**picked.fixed, "copy": copy[order].astype(np.uint8)}, picked.columns)


def pick(documents: RowBatch, chosen: NDArray[np.intp]) -> RowBatch:
    """Return chosen documents, joined slice by slice: an index per token would take four times their memory."""
    fixed = {
        name: documents.fixed[name][chosen] for name in ("document_uid", "language", "source_group")
    }
    columns = {}
    for name in (*_COLUMNS, *(name for name in _FURTHER if name in documents.columns)):
        column = documents.columns[name]
        columns[name] = Ragged.from_lists(
            [column[row] for row in chosen.tolist()], column.values.dtype
        )
    return RowBatch(fixed, columns)
