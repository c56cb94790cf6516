"""Datasets of Hugging Face in numpy format, by row and as a stream, over 8 Arrow files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader

from benchmarks.peers.flat_binary import Indexed
from benchmarks.peers.workload import BATCH, LENGTH, are_full, joined, stacked

_BUFFER = 10_000


class ArrowFiles:
    """The samples as `save_to_disk` writes them."""

    @staticmethod
    def load() -> None:
        """Import datasets, which shall not look for a network."""
        os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
        import datasets  # noqa: F401

    @staticmethod
    def write(folder: Path, ids: np.memmap[Any, Any], lengths: NDArray[np.int64]) -> None:
        """Write the samples once."""
        import datasets
        import pyarrow as pa

        if are_full(lengths):
            length, lists = LENGTH, pa.FixedSizeListArray.from_arrays(pa.array(ids.reshape(-1)), LENGTH)
        else:
            values = pa.array(ids[np.arange(LENGTH) < lengths[:, None]])
            length, lists = -1, pa.ListArray.from_arrays(np.cumsum([0, *lengths], dtype=np.int32), values)
        features = datasets.Features({"ids": datasets.Sequence(datasets.Value("uint16"), length=length)})
        table = pa.table({"ids": lists})
        info = datasets.DatasetInfo(features=features)
        datasets.Dataset(table, info=info).save_to_disk(str(folder / "hf"), num_shards=8)


class DatasetsMap(ArrowFiles, Indexed):
    """Rows by number; a DataLoader asks for a batch of them at once."""

    collate = staticmethod(stacked("ids"))

    @staticmethod
    def open(folder: Path) -> Any:
        """Open the rows."""
        import datasets

        return datasets.load_from_disk(str(folder / "hf")).with_format("numpy")


class DatasetsBatches(ArrowFiles):
    """A stream that shuffles in a buffer and makes whole batches itself, with its own state."""

    has_workers = False

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        import datasets

        stream = datasets.load_from_disk(str(folder / "hf")).to_iterable_dataset(num_shards=8)
        self.data, self.workers = self.rows(stream.shuffle(seed=1, buffer_size=_BUFFER).with_format("numpy")), workers
        if state is not None:
            self.data.load_state_dict(state)

    @staticmethod
    def rows(stream: Any) -> Any:
        """Return the stream with its format."""
        return stream.batch(BATCH)

    def __iter__(self) -> Iterator[torch.Tensor]:
        for batch in self.data:
            yield joined(batch["ids"])

    def state(self) -> Any:
        """Return the state of the stream."""
        return self.data.state_dict()


class DatasetsStreaming(DatasetsBatches):
    """The same stream under a DataLoader, which asks for one sample at a time: the usual way."""

    has_workers = True

    @staticmethod
    def rows(stream: Any) -> Any:
        """Yield single samples."""
        return stream

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from DataLoader(self.data, BATCH, num_workers=self.workers, collate_fn=stacked("ids"))
