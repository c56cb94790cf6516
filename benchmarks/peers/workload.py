"""The samples that every loader delivers, their identification, and the interface of a loader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

BATCH = 32
LENGTH = 512
_WORDS = 50_000
_WEIGHTS = np.arange(1, LENGTH + 1)


class Loader(Protocol):
    """One way to read the samples: an epoch of int64 batches [32, 512], with a state to continue from."""

    has_workers: bool
    """whether it can read with worker processes"""

    def __init__(self, folder: Any, state: Any, workers: int = 0) -> None:
        """Open the samples in a folder, at their beginning or where a state was taken."""

    @staticmethod
    def load() -> None:
        """Import what the case needs; ImportError: it is not installed."""

    @staticmethod
    def write(folder: Any, ids: Any) -> None:
        """Write the samples, a mapped array [samples, 512] of 16-bit ids, once."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Yield the rest of the epoch; afterwards the loader is at the beginning of the next one."""

    def state(self) -> Any:
        """Return, as JSON, the state after the batches delivered."""


def token_rows(samples: int) -> NDArray[np.uint16]:
    """Return ids drawn like words (Zipf over 50,000), the sample's number in the first two."""
    uniform = np.random.Philox(1).random_raw(samples * LENGTH) / 2.0**64
    ids: NDArray[np.uint16] = (
        np.minimum(_WORDS - 1, np.exp(uniform * np.log(_WORDS))).astype(np.uint16).reshape(samples, LENGTH)
    )
    ids[:, 0], ids[:, 1] = np.arange(samples) % _WORDS, np.arange(samples) // _WORDS
    return ids


def numbers(batch: torch.Tensor) -> NDArray[np.int64]:
    """Return the numbers of a batch's samples."""
    found: NDArray[np.int64] = (batch[:, 0] + batch[:, 1] * _WORDS).numpy()
    return found


def marks(ids: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return one number a row [rows, 512] that changes with any of its ids and with their order."""
    found: NDArray[np.int64] = np.dot(ids, _WEIGHTS)
    return found


def stacked(column: str) -> Callable[[list[dict[str, Any]]], torch.Tensor]:
    """Make a batch of rows that are records of numpy arrays."""
    return lambda rows: torch.from_numpy(np.stack([row[column] for row in rows]).astype(np.int64))
