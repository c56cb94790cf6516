"""Loaders of other libraries over the same samples, each as its documentation recommends it."""

import io
import os
import random
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset

from benchmarks.peers.workload import BATCH, LENGTH, Loader, are_full, pad_rows, stacker

os.environ.setdefault("HF_DATASETS_OFFLINE", "1")  # before `datasets` is imported

_BUFFER = 10_000
_FILES = 8
Ids = np.memmap[Any, Any]
Lengths = NDArray[np.int64]


class Memmap(Loader):
    """The upper bound: numpy gathers a batch from a mapped file, unchecked.

    Its permutation is in memory.

    The file holds padded ids without headers, as Megatron and nanoGPT store them.
    """

    has_workers = False

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        self.ids = np.memmap(folder / "ids.bin", np.uint16).reshape(-1, LENGTH)
        self.order = np.argsort(np.random.Philox(2).random_raw(len(self.ids)))
        self.start = state or 0

    @staticmethod
    def write(folder: Path, ids: Ids, lengths: Lengths) -> None:
        ids.tofile(folder / "ids.bin")

    def __iter__(self) -> Iterator[torch.Tensor]:
        while self.start < len(self.ids):
            rows = self.order[self.start : self.start + BATCH]
            self.start += len(rows)
            yield torch.from_numpy(np.take(self.ids, rows, axis=0).astype(np.int64))
        self.start = 0

    def state(self) -> int:
        return self.start


class Indexed(Loader):
    """A map-style data set under a DataLoader.

    Its sampler resumes after the samples already delivered.

    That is the best that such a data set can do: it neither skips nor reads anything to resume.
    """

    collate: Callable[[list[Any]], torch.Tensor] | None = None

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        self.rows = self.open(folder)
        self.start = state or 0
        self.workers = workers

    @staticmethod
    def open(folder: Path) -> Any:
        return MappedRows(folder)

    @staticmethod
    def write(folder: Path, ids: Ids, lengths: Lengths) -> None:
        ids.tofile(folder / "ids.bin")

    def order(self) -> Sequence[int]:
        """Return the row indices of an epoch."""
        order: list[int] = torch.randperm(
            len(self.rows), generator=torch.Generator().manual_seed(2)
        ).tolist()
        return order

    def __iter__(self) -> Iterator[torch.Tensor]:
        options: Any = {
            "sampler": self.order()[self.start :],
            "num_workers": self.workers,
            "collate_fn": self.collate,
        }
        for batch in DataLoader(self.rows, batch_size=BATCH, **options):
            self.start += len(batch)
            yield batch
        self.start = 0

    def state(self) -> int:
        return self.start


class MappedRows(Dataset[torch.Tensor]):
    """Rows of a mapped file, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.ids = np.memmap(folder / "ids.bin", np.uint16).reshape(-1, LENGTH)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.from_numpy(self.ids[row].astype(np.int64))


class ArrowFiles:
    """Storage of Hugging Face datasets: Arrow files written by `save_to_disk`."""

    module = "datasets"

    @staticmethod
    def write(folder: Path, ids: Ids, lengths: Lengths) -> None:
        import datasets
        import pyarrow as pa

        if are_full(lengths):
            length = LENGTH
            lists = pa.FixedSizeListArray.from_arrays(pa.array(ids.reshape(-1)), LENGTH)
        else:
            values = pa.array(ids[np.arange(LENGTH) < lengths[:, None]])
            length = -1
            lists = pa.ListArray.from_arrays(np.cumsum([0, *lengths], dtype=np.int32), values)

        features = datasets.Features(
            {"ids": datasets.Sequence(datasets.Value("uint16"), length=length)}
        )
        data = datasets.Dataset(
            pa.table({"ids": lists}), info=datasets.DatasetInfo(features=features)
        )
        data.save_to_disk(str(folder / "hf"), num_shards=_FILES)


class DatasetsMap(ArrowFiles, Indexed):
    """Map-style rows; the DataLoader fetches a batch of them at once."""

    collate = staticmethod(stacker("ids"))

    @staticmethod
    def open(folder: Path) -> Any:
        import datasets

        return datasets.load_from_disk(str(folder / "hf")).with_format("numpy")


class DatasetsStreaming(ArrowFiles, Loader):
    """A stream that shuffles in a buffer, with its own state, under a DataLoader: the usual way."""

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        import datasets

        stream = datasets.load_from_disk(str(folder / "hf")).to_iterable_dataset(num_shards=_FILES)
        self.data = stream.shuffle(seed=1, buffer_size=_BUFFER).with_format("numpy")
        self.workers = workers
        if state is not None:
            self.data.load_state_dict(state)

    def __iter__(self) -> Iterator[torch.Tensor]:
        yield from DataLoader(self.data, BATCH, num_workers=self.workers, collate_fn=stacker("ids"))

    def state(self) -> Any:
        return self.data.state_dict()


class WebDataset(Loader):
    """One tar member per sample and a seeded shuffle buffer.

    To resume without repeats it reads up to the position.
    """

    module = "webdataset"

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        self.urls = sorted(str(path) for path in folder.glob("*.tar"))
        self.skip = self.done = state or 0
        self.workers = workers

    @staticmethod
    def write(folder: Path, ids: Ids, lengths: Lengths) -> None:
        stored = np.full(len(ids), LENGTH) if are_full(lengths) else lengths
        for number, part in enumerate(np.array_split(np.arange(len(ids)), _FILES)):
            with tarfile.open(folder / f"{number:05d}.tar", "w") as archive:
                for sample in part:
                    add_array(archive, f"{sample:08d}.ids.npy", ids[sample, : stored[sample]])

    def __iter__(self) -> Iterator[torch.Tensor]:
        import webdataset

        dataset = webdataset.WebDataset(self.urls, shardshuffle=False, empty_check=False)
        shuffled = dataset.shuffle(_BUFFER, rng=random.Random(1)).decode().to_tuple("ids.npy")
        batches = shuffled.batched(
            BATCH,
            collation_fn=lambda samples: (pad_rows([ids for (ids,) in samples]),),
            partial=True,
        )

        source = (
            webdataset.WebLoader(batches, batch_size=None, num_workers=self.workers)
            if self.workers
            else batches
        )
        for number, (ids,) in enumerate(source):
            if number >= self.skip:
                self.done = number + 1
                yield ids

        self.skip = self.done = 0

    def state(self) -> int:
        """Return the number of batches delivered."""
        return self.done


def add_array(archive: tarfile.TarFile, name: str, values: np.ndarray[Any, Any]) -> None:
    """Add a member that holds an array in numpy's format."""
    buffer = io.BytesIO()
    np.save(buffer, values)
    entry = tarfile.TarInfo(name)
    entry.size = buffer.tell()
    buffer.seek(0)
    archive.addfile(entry, buffer)


class LitData(Loader):
    """Chunks of ids, cut into samples by litdata's loader for tokens."""

    module = "litdata"

    def __init__(self, folder: Path, state: Any, workers: int = 0) -> None:
        import litdata

        loader = litdata.TokensLoader(block_size=LENGTH)
        data = litdata.StreamingDataset(
            str(folder / "lit"), item_loader=loader, shuffle=True, drop_last=False
        )
        self.loader = litdata.StreamingDataLoader(data, batch_size=BATCH, num_workers=workers)
        if state is not None:
            self.loader.load_state_dict(state)

    @staticmethod
    def write(folder: Path, ids: Ids, lengths: Lengths) -> None:
        import litdata

        # it empties them; without a name they are `data` and `chunks` of the temporary folder
        for kind in ("", "DATA_"):
            os.environ[f"DATA_OPTIMIZER_{kind}CACHE_FOLDER"] = str(folder / f"{kind}cache")
        litdata.optimize(
            fn=_TokenChunks(str(ids.filename)),
            inputs=list(range(0, len(ids), 1000)),
            output_dir=str(folder / "lit"),
            chunk_size=LENGTH * 1920 * 8,
            num_workers=1,
            item_loader=litdata.TokensLoader(),
        )

    def __iter__(self) -> Iterator[torch.Tensor]:
        for batch in self.loader:
            yield batch.to(torch.int64)

    def state(self) -> Any:
        return self.loader.state_dict()


class _TokenChunks:
    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, start: int) -> Iterator[torch.Tensor]:
        ids = np.load(self.path, mmap_mode="r")
        yield torch.from_numpy(ids[start : start + 1000].reshape(-1).copy())
