"""Records of several integer lists in the formats of other libraries, to compare their bytes with ours."""

import tarfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.loaders import Mosaic, add_array

Columns = Mapping[str, list[NDArray[Any]]]
"""Per column one array for each record."""


def save(path: Path, columns: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]) -> None:
    """Write flat values and offsets for a writer in another process."""
    parts: dict[str, Any] = {f"{name}.{part}": pair[part] for name, pair in columns.items() for part in (0, 1)}
    np.savez(path, **parts)


def load(path: Path) -> Columns:
    """Read what `save` wrote."""
    with np.load(path) as kept:
        names = [key.removesuffix(".0") for key in kept.files if key.endswith(".0")]
        arrays = {name: (kept[f"{name}.0"], kept[f"{name}.1"]) for name in names}
    return {name: [values[a:b] for a, b in pairwise(offsets)] for name, (values, offsets) in arrays.items()}


def _rows(columns: Columns) -> Iterator[dict[str, NDArray[Any]]]:
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))


def write_flat_binary(source: Path, folder: Path) -> None:
    """Write two files a column, as Megatron does: values; lengths, offsets and document bounds."""
    for name, arrays in load(source).items():
        np.concatenate(arrays).tofile(folder / f"{name}.bin")
        lengths = np.array([len(array) for array in arrays], np.int32)
        starts = np.cumsum(lengths, dtype=np.int64) - lengths
        documents = np.arange(len(arrays) + 1, dtype=np.int64)
        header = b"MMIDIDX\x00\x00" + bytes(8 + 1 + 8 + 8)  # version, type, records, documents
        index = (header, lengths.tobytes(), starts.tobytes(), documents.tobytes())
        (folder / f"{name}.idx").write_bytes(b"".join(index))


def write_tar(source: Path, folder: Path) -> None:
    with tarfile.open(folder / "00000.tar", "w") as archive:
        for number, row in enumerate(_rows(load(source))):
            for name, array in row.items():
                add_array(archive, f"{number:08d}.{name}.npy", array)


def write_datasets(source: Path, folder: Path) -> None:
    """Write Arrow files of Hugging Face, lists of 16-bit integers."""
    import datasets
    import pyarrow as pa

    columns = load(source)
    table = pa.table({name: pa.array(arrays, pa.list_(pa.uint16())) for name, arrays in columns.items()})
    datasets.Dataset(table).save_to_disk(str(folder / "hf"))


def write_mds(source: Path, folder: Path, compression: str | None = None) -> None:
    Mosaic.load()
    from streaming import MDSWriter

    columns = load(source)
    types = dict.fromkeys(columns, "ndarray:uint16")
    with MDSWriter(out=str(folder / "mds"), columns=types, compression=compression) as out:
        for row in _rows(columns):
            out.write(row)


def write_litdata(source: Path, folder: Path, compression: str | None = None) -> None:
    """Write one-dimensional tensors without headers."""
    import litdata

    options: Any = {"chunk_bytes": "64MB", "num_workers": 1, "compression": compression}
    litdata.optimize(fn=_Records(source), inputs=[0], output_dir=str(folder / "lit"), **options)


class _Records:
    def __init__(self, source: Path) -> None:
        self.source = source

    def __call__(self, _: int) -> Iterator[dict[str, Any]]:
        import torch

        for row in _rows(load(self.source)):
            yield {name: torch.from_numpy(array.astype(np.uint16)) for name, array in row.items()}


WRITERS: dict[str, Callable[[Path, Path], None]] = {
    "flat binary with index": write_flat_binary, "MDS": write_mds,
    "MDS, zstd": partial(write_mds, compression="zstd"), "litdata": write_litdata,
    "litdata, zstd": partial(write_litdata, compression="zstd"), "datasets, Arrow": write_datasets,
    "per-sample tar": write_tar,
}  # fmt: skip


def write_all(name: str, sources: list[Path], folder: Path) -> list[int]:
    """Write each source in one format and return the bytes that it takes."""
    sizes = []
    for number, source in enumerate(sources):
        output = folder / f"{name} {number}"
        output.mkdir()
        WRITERS[name](source, output)
        sizes.append(sum(path.stat().st_size for path in output.rglob("*") if path.is_file()))
    return sizes
