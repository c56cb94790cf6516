"""WebDataset: one tar member a sample."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.peers.workload import BATCH, LENGTH, are_full, joined

_BUFFER = 10_000


class WebDataset:
    """A seeded buffer; a position is reached by reading up to it, which is the only way that repeats nothing."""

    has_workers = True

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        self.urls = sorted(str(path) for path in folder.glob("*.tar"))
        self.skip, self.workers = state or 0, workers
        self.done = self.skip

    @staticmethod
    def load() -> None:
        """Import webdataset."""
        import webdataset  # noqa: F401

    @staticmethod
    def write(folder: Path, ids: np.memmap[Any, Any], lengths: NDArray[np.int64]) -> None:
        """Write the samples once."""
        stored = np.full(len(ids), LENGTH) if are_full(lengths) else lengths
        for number, part in enumerate(np.array_split(np.arange(len(ids)), 8)):
            with tarfile.open(folder / f"{number:05d}.tar", "w") as archive:
                for sample in part:
                    add_array(archive, f"{sample:08d}.ids.npy", ids[sample, : stored[sample]])

    def __iter__(self) -> Iterator[torch.Tensor]:
        import random

        import webdataset

        dataset = webdataset.WebDataset(self.urls, shardshuffle=False, empty_check=False)
        shuffled = dataset.shuffle(_BUFFER, rng=random.Random(1)).decode().to_tuple("ids.npy")
        batches = shuffled.batched(BATCH, collation_fn=_batch, partial=True)
        source = webdataset.WebLoader(batches, batch_size=None, num_workers=self.workers) if self.workers else batches
        for number, (ids,) in enumerate(source):
            if number >= self.skip:
                self.done = number + 1
                yield ids
        self.skip = self.done = 0

    def state(self) -> int:
        """Return the number of batches delivered."""
        return self.done


def _batch(samples: list[tuple[Any]]) -> tuple[torch.Tensor]:
    return (joined([ids for (ids,) in samples]),)


def add_array(archive: tarfile.TarFile, name: str, values: np.ndarray[Any, Any]) -> None:
    """Return one member that holds an array as numpy saves it."""
    buffer = io.BytesIO()
    np.save(buffer, values)
    entry = tarfile.TarInfo(name)
    entry.size = buffer.tell()
    buffer.seek(0)
    archive.addfile(entry, buffer)
