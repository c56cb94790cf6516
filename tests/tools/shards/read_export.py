"""Read an export by the library that its format is for, and print its rows: `python read_export.py FORMAT FOLDER`.

It imports nothing of Clozeline: some of the libraries need an environment of their own.
"""

import io
import json
import sys
from pathlib import Path

import numpy as np

FIXED = ("uid", "variant", "document_uid", "document_offset", "copy", "part", "language")


def read_hf(folder):
    import datasets

    return datasets.load_from_disk(folder)


def read_litdata(folder):
    from litdata import StreamingDataset

    data = StreamingDataset(folder)
    for row in (data[index] for index in range(len(data))):
        numbers = {name: row[name][0] for name in FIXED}
        yield row | numbers | {"document_uid": row["document_uid"].tobytes()}


def read_mds(folder):
    from streaming import StreamingDataset

    data = StreamingDataset(local=folder, shuffle=False, batch_size=1)
    return (data[index] for index in range(len(data)))


def read_megatron(folder):
    from megatron.core.datasets.indexed_dataset import IndexedDataset

    data = IndexedDataset(f"{folder}/rows")
    assert data.document_indices.tolist() == list(range(len(data) + 1))
    return ({"input_ids": data[index]} for index in range(len(data)))


def read_parquet(folder):
    import pyarrow.dataset

    return pyarrow.dataset.dataset(folder).to_table().to_pylist()


def read_webdataset(folder):
    import webdataset

    paths = sorted(map(str, Path(folder).glob("*.tar")))
    for sample in webdataset.WebDataset(paths, shardshuffle=False):
        arrays = {name[:-4]: np.load(io.BytesIO(sample[name])) for name in sample if name.endswith(".npy")}
        yield json.loads(sample["json"]) | arrays


def plain(row):
    """A row as JSON holds it: bytes in hexadecimal; of an array, type and values."""
    return {
        name: value.hex() if isinstance(value, bytes) else np.asarray(value).tolist() for name, value in row.items()
    }


def read_rows(form, folder):
    """Return the rows of an export."""
    return [plain(row) for row in globals()[f"read_{form}"](folder)]


if __name__ == "__main__":
    rows = read_rows(*sys.argv[1:])
    print(json.dumps(rows))
