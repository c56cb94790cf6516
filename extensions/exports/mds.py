"""Write rows as MDS files, version 2, for `streaming.StreamingDataset` of MosaicML.

A file is the number of samples, the offsets of samples (32 bits each, one more than samples), a
JSON description of the columns, and the samples. A sample is the sizes of its values of variable
size, then the values, columns by name. The library's writer depends on the clients of four
clouds and on torchvision.
"""

import json
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from clozeline.errors import ConfigurationError
from clozeline.extensions.exports.exported_rows import ExportedRows
from clozeline.pipeline.rows import ShardRow
from clozeline.pipeline.shards import ColumnSpec

_MAX_FILE_BYTES: Final = 2**32 - 1
"""Size of the largest MDS file, whose offsets have 32 bits."""
_ONE_DIMENSION: Final = 1 << 2
"""First byte of an array: its number of dimensions, then two bits for the type of its shape."""


def write_mds(rows: ExportedRows, folder: Path) -> None:
    """Write `shard.NUMBER.mds` files, then `index.json`, which describes each of them.

    Raises:
        ConfigurationError: a file would be larger than its offsets can say.
    """
    columns = sorted(rows.shards.columns, key=lambda spec: spec.name)
    described = {
        "version": 2,
        "format": "mds",
        "compression": None,
        "hashes": [],
        "size_limit": None,
        "column_names": [spec.name for spec in columns],
        "column_encodings": [_encoding(spec) for spec in columns],
        "column_sizes": [None if spec.kind == "list" else spec.width for spec in columns],
    }

    header = json.dumps(described, sort_keys=True).encode()
    shards = []

    for number, part in enumerate(rows.files()):
        samples = [_encode_sample(row, columns) for row in part]
        offsets = np.cumsum([4 + 4 * (len(samples) + 1) + len(header), *map(len, samples)])
        if (size := int(offsets[-1])) > _MAX_FILE_BYTES:
            raise ConfigurationError(
                f"rows={rows.file_rows}: a file of this many rows has {size:,} bytes, and MDS "
                f"files hold at most {_MAX_FILE_BYTES:,}; give fewer rows"
            )
        name = f"shard.{number:05d}.mds"
        numbers = np.array([len(samples), *offsets], "<u4")
        (folder / name).write_bytes(b"".join([numbers.tobytes(), header, *samples]))
        raw = {"basename": name, "bytes": size, "hashes": {}}
        shards.append({**described, "samples": len(samples), "raw_data": raw, "zip_data": None})

    (folder / "index.json").write_text(
        json.dumps({"version": 2, "shards": shards}, sort_keys=True), encoding="utf-8"
    )


def _encoding(spec: ColumnSpec) -> str:
    if spec.kind == "list":
        return f"ndarray:{spec.dtype}"
    return "bytes" if spec.dtype == "binary16" else spec.dtype


def _encode_sample(row: ShardRow, columns: list[ColumnSpec]) -> bytes:
    values = [
        _encode_array(row.columns[spec.name])
        if spec.kind == "list"
        else row.fixed[spec.name].tobytes()
        for spec in columns
    ]
    sizes = [len(value) for spec, value in zip(columns, values, strict=True) if spec.kind == "list"]
    return b"".join([np.array(sizes, "<u4").tobytes(), *values])


def _encode_array(values: NDArray[np.generic]) -> bytes:
    """Return dimensions, length and values.

    The length is stored in the smallest type that holds it.
    """
    size = next(size for size in range(3) if len(values) < 1 << (8 << size))
    return (
        bytes([_ONE_DIMENSION | size])
        + len(values).to_bytes(1 << size, "little")
        + values.tobytes()
    )
