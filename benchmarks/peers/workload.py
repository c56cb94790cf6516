"""The samples that every loader delivers, their identification, and the interface of a loader.

`packed` samples are full but for 15 in 38,985, as in a real packed set, where a shard ends in a short row. `documents`
are as long as the texts that come with Python. Formats of rows of one length hold them padded, the others as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

BATCH = 32
LENGTH = 512
_WORDS = 50_000
_WEIGHTS = np.arange(1, LENGTH + 1)
_ROWS_FOR_A_SHORT_ONE = 38_985 // 15
_SHORTEST = 2
"""Ids that hold the number of a sample."""


class Loader(Protocol):
    """One way to read the samples: an epoch of int64 batches [32, 512 or fewer], with a state to continue from."""

    has_workers: bool
    """whether it can read with worker processes"""

    def __init__(self, folder: Any, state: Any, workers: int = 0) -> None:
        """Open the samples in a folder, at their beginning or where a state was taken."""

    @staticmethod
    def load() -> None:
        """Import what the case needs; ImportError: it is not installed."""

    @staticmethod
    def write(folder: Any, ids: Any, lengths: Any) -> None:
        """Write the samples, a mapped array [samples, 512] of 16-bit ids, padded by 0, and their lengths, once."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Yield the rest of the epoch; afterwards the loader is at the beginning of the next one."""

    def state(self) -> Any:
        """Return, as JSON, the state after the batches delivered."""


def token_rows(lengths: NDArray[np.int64]) -> NDArray[np.uint16]:
    """Return ids [samples, 512] drawn like words (Zipf over 50,000), its number first, padded by 0."""
    samples = len(lengths)
    uniform = np.random.Philox(1).random_raw(samples * LENGTH) / 2.0**64
    ids: NDArray[np.uint16] = (
        np.minimum(_WORDS - 1, np.exp(uniform * np.log(_WORDS))).astype(np.uint16).reshape(samples, LENGTH)
    )
    ids[:, 0], ids[:, 1] = np.arange(samples) % _WORDS, np.arange(samples) // _WORDS
    ids[np.arange(LENGTH) >= lengths[:, None]] = 0
    return ids


def packed_lengths(samples: int) -> NDArray[np.int64]:
    """Return 512 for each sample but the last of every 2,599, which is shorter."""
    lengths = np.full(samples, LENGTH)
    ends = lengths[_ROWS_FOR_A_SHORT_ONE - 1 :: _ROWS_FOR_A_SHORT_ONE]
    ends[:] = _SHORTEST + np.random.Philox(3).random_raw(len(ends)) % np.uint64(LENGTH - _SHORTEST)
    return lengths


def document_lengths(samples: int, texts: Sequence[str]) -> NDArray[np.int64]:
    """Return lengths drawn from those of texts, in words, 2 to 512."""
    natural = np.clip([len(text.split()) for text in texts], _SHORTEST, LENGTH)
    lengths: NDArray[np.int64] = natural[np.random.Philox(3).random_raw(samples) % np.uint64(len(natural))]
    return lengths


def are_full(lengths: NDArray[np.int64]) -> bool:
    """Return whether so few samples are short that a format of rows of one length suits them."""
    return bool((lengths == LENGTH).mean() > 0.9)


def numbers(batch: torch.Tensor) -> NDArray[np.int64]:
    """Return the numbers of a batch's samples."""
    found: NDArray[np.int64] = (batch[:, 0] + batch[:, 1] * _WORDS).numpy()
    return found


def marks(ids: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return one number a row [rows, 512 or fewer] that changes with any id and with their order; pads are 0."""
    found: NDArray[np.int64] = np.dot(ids, _WEIGHTS[: ids.shape[1]])
    return found


def stacked(column: str) -> Callable[[list[dict[str, Any]]], torch.Tensor]:
    """Make a batch of rows that are records of numpy arrays."""
    return lambda rows: joined([row[column] for row in rows])


def joined(rows: Sequence[Any]) -> torch.Tensor:
    """Return rows as one batch, padded by 0 where one is shorter than the longest."""
    width = max(map(len, rows))
    if all(len(row) == width for row in rows):
        return torch.from_numpy(np.stack(rows).astype(np.int64))
    batch = np.zeros((len(rows), width), np.int64)
    for place, row in zip(batch, rows, strict=True):
        place[: len(row)] = row
    return torch.from_numpy(batch)
