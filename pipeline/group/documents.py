"""Read the training or held-out documents of token shards, in the order that groupings read."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.execution.unit_inputs import SomeShards
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import WORD_STARTS, Ragged, RowBatch
from clozeline.pipeline.shards.layout import is_heldout, shard_of
from clozeline.seeding import order_key

_FIXED: Final = ("document_uid", "language", "source_group")
# The last three are columns of token sets with aligned texts, and with word starts from segmenters.
_COLUMNS: Final = (
    "token_ids",
    "sentence_starts",
    "target_ids",
    "target_language",
    WORD_STARTS.name,
)


def train_documents(tokens: SomeShards, fraction: float, seed: int) -> RowBatch:
    """Return the documents of token shards that are not held out."""
    return _read_documents(tokens, seed, lambda uid: not is_heldout(uid, fraction, seed))


def heldout_documents(
    tokens: SomeShards, shard: int, shards: int, fraction: float, seed: int
) -> RowBatch:
    """Return the held-out documents of held-out shard `shard` of `shards`.

    `tokens` are the shards that hold them: see `token_shards`.
    """

    def is_in_shard(uid: bytes) -> bool:
        return is_heldout(uid, fraction, seed) and shard_of(uid, shards, seed) == shard

    return _read_documents(tokens, seed, is_in_shard)


def token_shards(shard: int, shards: int, total: int) -> range:
    """Return the token shards, of `total`, with the documents of a held-out shard of `shards`."""
    return range(shard * total // shards, -(-(shard + 1) * total // shards))


def document_order_key(uid: bytes, copy: int, seed: int) -> int:
    """Return the hash by which the documents of a shard are ordered before they are grouped."""
    return order_key(uid + bytes([copy]), "group", seed)


def _read_documents(
    tokens: SomeShards, seed: int, is_in_shard: Callable[[bytes], bool]
) -> RowBatch:
    parts = []

    for rows in tokens.blocks():
        chosen = [is_in_shard(uid.tobytes()) for uid in rows.fixed["document_uid"]]
        parts.append(select_documents(rows, np.flatnonzero(chosen)))

    # without any block: no documents, in columns of the right types
    if not parts:
        fixed: dict[str, NDArray[Any]] = {
            "document_uid": np.empty((0, 16), np.uint8),
            "language": np.empty(0, np.uint8),
            "source_group": np.empty(0, np.uint16),
        }
        ids = np.uint16 if tokens.tokenizer.vocab_size <= 65536 else np.uint32
        starts = Ragged.from_lists([], np.uint32)
        columns = {"token_ids": Ragged.from_lists([], ids), "sentence_starts": starts}
        if WORD_STARTS.name in tokens.columns:
            columns[WORD_STARTS.name] = starts
        parts = [RowBatch(fixed, columns)]

    documents = RowBatch.concatenate(parts)
    return copy_documents(documents, np.ones(len(documents), np.int64), seed)


def count_tokens(documents: RowBatch) -> Int64:
    """Return the tokens of each document, of both sides of a pair, shape [documents]."""
    lengths: Int64 = documents.columns["token_ids"].lengths
    if "target_ids" in documents.columns:
        lengths = lengths + documents.columns["target_ids"].lengths
    return lengths


def copy_documents(documents: RowBatch, copies: Int64, seed: int) -> RowBatch:
    """Return `copies[i]` copies of document i, 0 to 255, ordered by a hash of uid and copy."""
    rows = np.repeat(np.arange(len(documents)), copies)
    copy = np.arange(len(rows)) - np.repeat(offsets_of(copies)[:-1], copies)
    uids = documents.fixed["document_uid"]
    keys = [
        document_order_key(uids[row].tobytes(), number, seed)
        for row, number in zip(rows.tolist(), copy.tolist(), strict=True)
    ]
    order = np.argsort(np.array(keys, dtype=np.uint64), kind="stable")
    copied = select_documents(documents, rows[order])
    return RowBatch({**copied.fixed, "copy": copy[order].astype(np.uint8)}, copied.columns)


def select_documents(documents: RowBatch, chosen: NDArray[np.intp]) -> RowBatch:
    """Return the chosen documents, in this order."""
    columns = {name: documents.columns[name] for name in _COLUMNS if name in documents.columns}
    return RowBatch({name: documents.fixed[name] for name in _FIXED}, columns).take(chosen)
