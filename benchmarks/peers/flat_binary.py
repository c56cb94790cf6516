"""One file of ids after ids, as Megatron and nanoGPT keep them: gathered by numpy, under a DataLoader, in datatrove."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from benchmarks.peers.workload import BATCH, LENGTH


class Memmap:
    """The limit: numpy gathers a whole batch from a mapped file, unchecked, with the permutation in memory."""

    has_workers = False

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        self.ids = np.memmap(folder / "ids.bin", np.uint16).reshape(-1, LENGTH)
        self.order = np.argsort(np.random.Philox(2).random_raw(len(self.ids)))
        self.start = state or 0

    @staticmethod
    def load() -> None:
        """Import nothing beyond numpy."""

    @staticmethod
    def write(folder: Path, ids: np.memmap[Any, Any], lengths: NDArray[np.int64]) -> None:
        """Write the samples once, padded."""
        ids.tofile(folder / "ids.bin")

    def __iter__(self) -> Iterator[torch.Tensor]:
        while self.start < len(self.ids):
            rows = self.order[self.start : self.start + BATCH]
            self.start += len(rows)
            yield torch.from_numpy(np.take(self.ids, rows, axis=0).astype(np.int64))
        self.start = 0

    def state(self) -> int:
        """Return the number of samples passed over."""
        return self.start


class Indexed:
    """Rows that can be asked for by number, under a DataLoader; a position is a number of samples of its sampler.

    That is the best such a data set can do: a sampler with a state, which needs neither skipping nor reading.
    """

    has_workers = True
    collate: Callable[[list[Any]], torch.Tensor] | None = None

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        self.rows, self.start, self.workers = self.open(folder), state or 0, workers

    @staticmethod
    def load() -> None:
        """Import nothing beyond torch."""

    @staticmethod
    def open(folder: Path) -> Any:
        """Open the rows."""
        return MappedRows(folder)

    @staticmethod
    def write(folder: Path, ids: np.memmap[Any, Any], lengths: NDArray[np.int64]) -> None:
        """Write the samples once, padded."""
        ids.tofile(folder / "ids.bin")

    def order(self) -> Sequence[int]:
        """Return the numbers of the rows of an epoch."""
        order: list[int] = torch.randperm(len(self.rows), generator=torch.Generator().manual_seed(2)).tolist()
        return order

    def __iter__(self) -> Iterator[torch.Tensor]:
        rest: Any = self.order()[self.start :]
        options: Any = {"sampler": rest, "num_workers": self.workers, "collate_fn": self.collate}
        for batch in DataLoader(self.rows, batch_size=BATCH, **options):
            self.start += len(batch)
            yield batch
        self.start = 0

    def state(self) -> int:
        """Return the number of samples passed over."""
        return self.start


class MappedRows(Dataset[torch.Tensor]):
    """Rows of a mapped file, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.ids = np.memmap(folder / "ids.bin", np.uint16).reshape(-1, LENGTH)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.from_numpy(self.ids[row].astype(np.int64))


class DatatroveFolder(Indexed):
    """Datatrove's folder of files; it shuffles files only, and asks that rows be read one after another.

    Rows in file order are therefore all the shuffle there is: less than every other case has. A row of `seq_len` is
    `seq_len` + 1 ids.
    """

    collate = staticmethod(lambda rows: torch.stack([row["input_ids"] for row in rows]))

    @staticmethod
    def load() -> None:
        """Import datatrove."""
        import datatrove.utils.dataset  # noqa: F401

    @staticmethod
    def open(folder: Path) -> Any:
        """Open the rows."""
        from datatrove.utils.dataset import DatatroveFolderDataset

        return DatatroveFolderDataset(str(folder), LENGTH - 1, filename_pattern="*.ds", shuffle=True)

    @staticmethod
    def write(folder: Path, ids: np.memmap[Any, Any], lengths: NDArray[np.int64]) -> None:
        """Write the samples once, padded."""
        for number, part in enumerate(np.array_split(ids, 8)):
            part.tofile(folder / f"{number:05d}.ds")

    def order(self) -> Sequence[int]:
        """Return the numbers of the rows in order."""
        return range(len(self.rows))
