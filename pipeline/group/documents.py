"""Token documents of a shard, split in training and held-out ones, in the order that grouping takes them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeline.arrays import Int64
from clozeline.pipeline.kernels.sampling import offsets_of
from clozeline.pipeline.rows import Ragged, Rows
from clozeline.pipeline.shards import open_shards
from clozeline.pipeline.shards.splits import is_heldout
from clozeline.seeding import order_key

_COLUMNS = ("token_ids", "sentence_starts")
# Columns of token sets that hold aligned texts.
_PAIRS = ("target_ids", "target_language")


def train_documents(tokens: Path, shard: int, fraction: float, seed: int) -> Rows:
    """Return the documents of a token shard that are not held out.

    Args:
        tokens: manifest of the token set, or its folder.
        shard: which token shard.
        fraction: share of documents held out.
        seed: the recipe's seed.
    """
    documents = _read(tokens, [shard], lambda uid: not is_heldout(uid, fraction, seed))
    return with_copies(documents, np.ones(len(documents), np.int64), seed)


def heldout_documents(tokens: Path, shard: int, shards: int, fraction: float, seed: int) -> Rows:
    """Return the held-out documents of the token shards whose order falls in range `shard` of `shards`.

    Args:
        tokens: manifest of the token set, or its folder.
        shard: which held-out shard.
        shards: number of held-out shards, at most that of the token set.
        fraction: share of documents held out.
        seed: the recipe's seed.
    """
    total = len(open_shards(tokens).manifest.shards)
    first, last = shard * total // shards, -(-(shard + 1) * total // shards)

    def is_in_shard(uid: bytes) -> bool:
        return is_heldout(uid, fraction, seed) and heldout_shard(uid, shards, seed) == shard

    documents = _read(tokens, range(first, last), is_in_shard)
    return with_copies(documents, np.ones(len(documents), np.int64), seed)


def heldout_shard(uid: bytes, shards: int, seed: int) -> int:
    """Return the held-out shard that a held-out document belongs to."""
    return (order_key(uid, "order", seed) * shards) >> 64


def place_key(uid: bytes, copy: int, seed: int) -> int:
    """Return the word by which the documents of a shard are ordered before they are grouped."""
    return order_key(uid + bytes([copy]), "group", seed)


def _read(tokens: Path, shards: Iterable[int], is_in_shard: Any) -> Rows:
    token_set = open_shards(tokens)
    wanted_shards = set(shards)
    parts = []
    for block in range(len(token_set.index)):
        if int(token_set.index.shard[block]) in wanted_shards:
            rows = token_set.read_block(block)
            uids = rows.fixed["document_uid"]
            kept = np.fromiter((is_in_shard(uid.tobytes()) for uid in uids), dtype=np.bool_, count=len(rows))
            parts.append(_pick(rows, np.flatnonzero(kept)))
    return Rows.concatenate(parts) if parts else _none(token_set.manifest.tokenizer.vocab_size)


def with_copies(documents: Rows, copies: Int64, seed: int) -> Rows:
    """Return so many copies of each document, 0 to 255, ordered by a keyed word of uid and copy."""
    rows = np.repeat(np.arange(len(documents)), copies)
    copy = np.arange(len(rows)) - np.repeat(offsets_of(copies)[:-1], copies)
    uids = documents.fixed["document_uid"]
    keys = [
        place_key(uids[row].tobytes(), number, seed) for row, number in zip(rows.tolist(), copy.tolist(), strict=True)
    ]
    order = np.argsort(np.array(keys, dtype=np.uint64), kind="stable")
    picked = _pick(documents, rows[order])
    return Rows({**picked.fixed, "copy": copy[order].astype(np.uint8)}, picked.columns)


def _pick(documents: Rows, chosen: NDArray[np.intp]) -> Rows:
    """Return chosen documents, joined slice by slice: an index per token would take four times their memory."""
    fixed = {name: documents.fixed[name][chosen] for name in ("document_uid", "language", "source_group")}
    columns = {}
    for name in (*_COLUMNS, *(name for name in _PAIRS if name in documents.columns)):
        column = documents.columns[name]
        columns[name] = Ragged.from_lists([column[row] for row in chosen.tolist()], column.values.dtype)
    return Rows(fixed, columns)


def _none(vocab_size: int) -> Rows:
    ids = np.uint16 if vocab_size <= 65536 else np.uint32
    fixed: dict[str, NDArray[Any]] = {
        "document_uid": np.empty((0, 16), np.uint8),
        "language": np.empty(0, np.uint8),
        "source_group": np.empty(0, np.uint16),
    }
    dtypes = {"token_ids": ids, "sentence_starts": np.uint32}
    return Rows(fixed, {name: Ragged.from_lists([], dtype) for name, dtype in dtypes.items()})
