"""Loaders that ours is compared with: each writes the samples in its own format and reads them with its own defaults.

A loader is made from a folder and a state (None: from the beginning), iterates one epoch of int64 batches, and tells
its state. What is not installed is skipped by the benchmark, which says so.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch

BATCH = 32
LENGTH = 512


class Loader(Protocol):
    """One way to read the samples."""

    module: ClassVar[str]
    """what must be installed"""

    def __init__(self, folder: Path, state: Any) -> None: ...

    @staticmethod
    def write(folder: Path, ids: np.ndarray) -> None:
        """Write the samples once."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        """The rest of an epoch."""

    def state(self) -> Any:
        """What is needed to go on behind the batches delivered so far, as JSON."""


class Memmap:
    """The limit: numpy gathers a whole batch from a mapped file, unchecked, with the permutation in memory."""

    module = "numpy"

    def __init__(self, folder: Path, state: Any) -> None:
        self.ids = np.memmap(folder / "ids.bin", np.uint16).reshape(-1, LENGTH)
        self.order = np.argsort(np.random.Philox(2).random_raw(len(self.ids)))
        self.start = state or 0

    @staticmethod
    def write(folder: Path, ids: np.ndarray) -> None:
        """Write the samples once."""
        ids.tofile(folder / "ids.bin")

    def __iter__(self) -> Iterator[torch.Tensor]:
        while self.start < len(self.ids):
            rows = self.order[self.start : self.start + BATCH]
            self.start += len(rows)
            yield torch.from_numpy(np.take(self.ids, rows, axis=0).astype(np.int64))
        self.start = 0

    def state(self) -> int:
        """Where the loader is."""
        return self.start


class MappedRows(torch.utils.data.Dataset[torch.Tensor]):
    """Rows of a mapped file, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.ids = np.memmap(folder / "ids.bin", np.uint16).reshape(-1, LENGTH)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.from_numpy(self.ids[row].astype(np.int64))


class MappedDataLoader:
    """DataLoader of torch over the mapped file; a position is a number of samples passed over in the sampler."""

    module = "torch"

    def __init__(self, folder: Path, state: Any) -> None:
        self.rows, self.start = MappedRows(folder), state or 0

    @staticmethod
    def write(folder: Path, ids: np.ndarray) -> None:
        """Write the samples once."""
        ids.tofile(folder / "ids.bin")

    def __iter__(self) -> Iterator[torch.Tensor]:
        order = torch.randperm(len(self.rows), generator=torch.Generator().manual_seed(2)).tolist()
        for batch in torch.utils.data.DataLoader(self.rows, batch_size=BATCH, sampler=order[self.start :]):
            self.start += len(batch)
            yield batch
        self.start = 0

    def state(self) -> int:
        """Where the loader is."""
        return self.start


class WebDataset:
    """Per-sample tars, a seeded buffer of 10,000; a position is reached by reading up to it, as its authors advise."""

    module = "webdataset"

    def __init__(self, folder: Path, state: Any) -> None:
        self.urls = sorted(str(path) for path in folder.glob("*.tar"))
        self.skip = self.done = state or 0

    @staticmethod
    def write(folder: Path, ids: np.ndarray) -> None:
        """Write the samples once."""
        for number, part in enumerate(np.array_split(np.arange(len(ids)), 8)):
            with tarfile.open(folder / f"{number:05d}.tar", "w") as archive:
                for sample in part:
                    buffer = io.BytesIO()
                    np.save(buffer, ids[sample])
                    entry = tarfile.TarInfo(f"{sample:08d}.ids.npy")
                    entry.size = buffer.tell()
                    buffer.seek(0)
                    archive.addfile(entry, buffer)

    def __iter__(self) -> Iterator[torch.Tensor]:
        import random

        import webdataset

        dataset = webdataset.WebDataset(self.urls, shardshuffle=False, empty_check=False)
        shuffled = dataset.shuffle(10_000, rng=random.Random(1)).decode().to_tuple("ids.npy")
        for number, (ids,) in enumerate(shuffled.batched(BATCH, partial=True)):
            if number >= self.skip:
                self.done = number + 1
                yield torch.from_numpy(np.asarray(ids).astype(np.int64))
        self.skip = self.done = 0

    def state(self) -> int:
        """Where the loader is."""
        return self.done


class LitData:
    """StreamingDataset with the loader for tokens."""

    module = "litdata"

    def __init__(self, folder: Path, state: Any) -> None:
        import litdata

        loader = litdata.TokensLoader(block_size=LENGTH)
        data = litdata.StreamingDataset(str(folder / "lit"), item_loader=loader, shuffle=True, drop_last=False)
        self.loader = litdata.StreamingDataLoader(data, batch_size=BATCH, num_workers=0)
        if state is not None:
            self.loader.load_state_dict(state)

    @staticmethod
    def write(folder: Path, ids: np.ndarray) -> None:
        """Write the samples once."""
        import litdata

        litdata.optimize(
            fn=_Tokens(folder / "all.npy", ids),
            inputs=list(range(0, len(ids), 1000)),
            output_dir=str(folder / "lit"),
            chunk_size=LENGTH * 1920 * 8,
            num_workers=1,
            item_loader=litdata.TokensLoader(),
        )
        (folder / "all.npy").unlink()

    def __iter__(self) -> Iterator[torch.Tensor]:
        for batch in self.loader:
            yield batch.to(torch.int64)

    def state(self) -> Any:
        """Where the loader is."""
        return self.loader.state_dict()


class _Tokens:
    """Gives litdata the tokens of a thousand samples at a time, in a process of its own."""

    def __init__(self, path: Path, ids: np.ndarray) -> None:
        self.path = path
        np.save(path, ids)

    def __call__(self, start: int) -> Iterator[torch.Tensor]:
        ids = np.load(self.path, mmap_mode="r")
        yield torch.from_numpy(ids[start : start + 1000].reshape(-1).copy())


class DatasetsMap:
    """Map-style Hugging Face datasets in numpy format under a DataLoader."""

    module = "datasets"

    def __init__(self, folder: Path, state: Any) -> None:
        import datasets

        self.data = datasets.load_from_disk(str(folder / "hf")).with_format("numpy")
        self.start = state or 0

    @staticmethod
    def write(folder: Path, ids: np.ndarray) -> None:
        """Write the samples once."""
        import datasets
        import pyarrow as pa

        features = datasets.Features({"ids": datasets.Sequence(datasets.Value("uint16"), length=LENGTH)})
        column = pa.FixedSizeListArray.from_arrays(pa.array(ids.reshape(-1)), LENGTH)
        table = pa.table({"ids": column})
        datasets.Dataset(table, info=datasets.DatasetInfo(features=features)).save_to_disk(
            str(folder / "hf"), num_shards=8
        )

    def __iter__(self) -> Iterator[torch.Tensor]:
        order = torch.randperm(len(self.data), generator=torch.Generator().manual_seed(2)).tolist()
        batches = torch.utils.data.DataLoader(
            self.data, batch_size=BATCH, sampler=order[self.start :], collate_fn=_stacked
        )
        for batch in batches:
            self.start += len(batch)
            yield batch
        self.start = 0

    def state(self) -> Any:
        """Where the loader is."""
        return self.start


def _stacked(rows: list[dict[str, np.ndarray]]) -> torch.Tensor:
    return torch.from_numpy(np.stack([row["ids"] for row in rows]).astype(np.int64))


class DatasetsStreaming:
    """Hugging Face datasets as a stream, a buffer of 10,000, its own state."""

    module = "datasets"
    write = DatasetsMap.write

    def __init__(self, folder: Path, state: Any) -> None:
        import datasets

        data = datasets.load_from_disk(str(folder / "hf")).to_iterable_dataset(num_shards=8)
        self.data = data.shuffle(seed=1, buffer_size=10_000).with_format("numpy").batch(BATCH)
        if state is not None:
            self.data.load_state_dict(state)

    def __iter__(self) -> Iterator[torch.Tensor]:
        for batch in self.data:
            yield torch.from_numpy(np.stack(batch["ids"]).astype(np.int64))

    def state(self) -> Any:
        """Where the loader is."""
        return self.data.state_dict()


class DatasetsDataLoader(DatasetsStreaming):
    """The same stream under a DataLoader, which asks for one sample at a time: the usual way."""

    def __init__(self, folder: Path, state: Any) -> None:
        import datasets

        data = datasets.load_from_disk(str(folder / "hf")).to_iterable_dataset(num_shards=8)
        self.data = data.shuffle(seed=1, buffer_size=10_000).with_format("numpy")
        if state is not None:
            self.data.load_state_dict(state)

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from torch.utils.data.DataLoader(self.data, batch_size=BATCH, collate_fn=_stacked)


class Mosaic:
    """MDS shards."""

    module = "streaming"

    def __init__(self, folder: Path, state: Any) -> None:
        from streaming import StreamingDataset
        from streaming.base.util import clean_stale_shared_memory

        clean_stale_shared_memory()
        self.data = StreamingDataset(local=str(folder / "mds"), shuffle=True, shuffle_seed=1, batch_size=BATCH)
        self.done = 0
        if state is not None:
            self.data.load_state_dict(state)
            self.done = state["sample_in_epoch"]

    @staticmethod
    def write(folder: Path, ids: np.ndarray) -> None:
        """Write the samples once."""
        from streaming import MDSWriter

        with MDSWriter(out=str(folder / "mds"), columns={"ids": f"ndarray:uint16:{LENGTH}"}) as out:
            for row in ids:
                out.write({"ids": row})

    def __iter__(self) -> Iterator[torch.Tensor]:
        for batch in torch.utils.data.DataLoader(self.data, batch_size=BATCH, collate_fn=_stacked):
            self.done += len(batch)
            yield batch
        self.done = 0

    def state(self) -> Any:
        """Where the loader is."""
        return self.data.state_dict(self.done, False)


os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
PEERS: dict[str, type[Loader]] = {
    "numpy memmap, whole batch": Memmap,
    "memmap + DataLoader": MappedDataLoader,
    "litdata": LitData,
    "datasets, map-style": DatasetsMap,
    "datasets, streaming whole batches": DatasetsStreaming,
    "datasets, streaming + DataLoader": DatasetsDataLoader,
    "webdataset, per-sample tar": WebDataset,
    "mosaicml-streaming": Mosaic,
}
