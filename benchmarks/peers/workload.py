"""The samples that every loader delivers, how each is recognized, and the interface of a loader.

`packed` samples are full except for 15 in 38,985, as in a real packed set, where a shard ends in a
short row. `documents` are as long as texts that come with Python. Formats with one row length store
them padded.
"""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

BATCH = 32
LENGTH = 512
_WORDS = 50_000
_WEIGHTS = np.arange(1, LENGTH + 1)
_ROWS_PER_SHORT_ROW = 38_985 // 15
_SHORTEST = 2
"""Ids that hold the index of a sample."""


class Loader:
    """One way to read an epoch of samples, with a state to resume from.

    It yields int64 batches [32, 512 or fewer].
    """

    module = ""
    """what the loader imports; ImportError: it is not installed"""
    has_workers = True
    """whether it can read with worker processes"""

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        """Open the samples in a folder, at their start or where a state was taken."""

    @classmethod
    def load(cls) -> None:
        """Import what the loader needs."""
        if cls.module:
            import_module(cls.module)

    @staticmethod
    def write(folder: Path, ids: Any, lengths: Any) -> None:
        """Write the samples as a mapped array, and their lengths.

        The array [samples, 512] holds 16-bit ids, padded with 0.
        """
        raise NotImplementedError

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Yield the rest of the epoch; the next iteration starts the next one."""
        raise NotImplementedError

    def state(self) -> Any:
        """Return, as JSON, the state after the batches delivered."""
        raise NotImplementedError


def token_rows(lengths: NDArray[np.int64]) -> NDArray[np.uint16]:
    """Return ids [samples, 512], Zipf-distributed over 50,000, padded with 0.

    The first two are the sample's index.
    """
    samples = len(lengths)
    uniform = np.random.Philox(1).random_raw(samples * LENGTH) / 2.0**64
    ids: NDArray[np.uint16] = (
        np.minimum(_WORDS - 1, np.exp(uniform * np.log(_WORDS)))
        .astype(np.uint16)
        .reshape(samples, LENGTH)
    )
    ids[:, 0] = np.arange(samples) % _WORDS
    ids[:, 1] = np.arange(samples) // _WORDS
    ids[np.arange(LENGTH) >= lengths[:, None]] = 0
    return ids


def draw_packed_lengths(samples: int) -> NDArray[np.int64]:
    """Return 512 for each sample except every 2,599th, which is shorter."""
    lengths = np.full(samples, LENGTH)
    ends = lengths[_ROWS_PER_SHORT_ROW - 1 :: _ROWS_PER_SHORT_ROW]
    ends[:] = _SHORTEST + np.random.Philox(3).random_raw(len(ends)) % np.uint64(LENGTH - _SHORTEST)
    return lengths


def document_lengths(samples: int, texts: Sequence[str]) -> NDArray[np.int64]:
    """Return lengths drawn from those of texts, in words, 2 to 512."""
    natural = np.clip([len(text.split()) for text in texts], _SHORTEST, LENGTH)
    lengths: NDArray[np.int64] = natural[
        np.random.Philox(3).random_raw(samples) % np.uint64(len(natural))
    ]
    return lengths


def are_full(lengths: NDArray[np.int64]) -> bool:
    """Return whether so few samples are short that a format with one row length suits them."""
    return bool((lengths == LENGTH).mean() > 0.9)


def sample_indices(batch: torch.Tensor) -> NDArray[np.int64]:
    """Return the indices of a batch's samples, from their first two ids."""
    indices: NDArray[np.int64] = (batch[:, 0] + batch[:, 1] * _WORDS).numpy()
    return indices


def checksums(ids: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return one number per row [rows, 512 or fewer] that changes with any id and with their order.

    Pads are 0.
    """
    sums: NDArray[np.int64] = np.dot(ids, _WEIGHTS[: ids.shape[1]])
    return sums


def stacker(column: str) -> Callable[[list[dict[str, Any]]], torch.Tensor]:
    """Return a collate function for records of numpy arrays."""
    return lambda rows: pad_rows([row[column] for row in rows])


def pad_rows(rows: Sequence[Any]) -> torch.Tensor:
    """Return rows as one batch, padded with 0 to the longest."""
    width = max(map(len, rows))
    if all(len(row) == width for row in rows):
        return torch.from_numpy(np.stack(rows).astype(np.int64))
    batch = np.zeros((len(rows), width), np.int64)
    for target, row in zip(batch, rows, strict=True):
        target[: len(row)] = row
    return torch.from_numpy(batch)
