"""Write causal rows as `rows.bin` and `rows.idx`, an `IndexedDataset` of Megatron-LM.

The first file holds the token ids of all rows. The second one holds a header, the type of the ids,
the counts of sequences and documents, the lengths of sequences, their offsets in bytes, and the
first sequence of each document. Each row is a document of one sequence.
"""

import struct
from pathlib import Path
from typing import Final

import numpy as np

from clozeline.errors import ConfigurationError
from clozeline.extensions.exports.exported_rows import ExportedRows
from clozeline.pipeline.shards import ShardSet

_HEADER: Final = struct.Struct("<9sQBQQ")
_MAGIC: Final = b"MMIDIDX\x00\x00"
_VERSION: Final = 1
# Type of ids in a set → code and type of the ids in the export: Megatron has no unsigned type of 32
# bits.
_CODE_AND_DTYPE: Final = {"uint16": (8, "<u2"), "uint32": (4, "<i4")}


def write_megatron(rows: ExportedRows, folder: Path) -> None:
    """Write both files; `file_rows` says only how many rows are held in memory.

    Raises:
        ConfigurationError: rows have more than token ids, or their labels are not the next tokens.
    """
    _refuse_other_rows(rows.shards)
    (spec,) = (spec for spec in rows.shards.columns if spec.kind == "list")
    code, dtype = _CODE_AND_DTYPE[spec.dtype]
    lengths = []

    with (folder / "rows.bin").open("wb") as file:
        for part in rows.files():
            ids = part.columns[spec.name]
            file.write(ids.values[ids.offsets[0] : ids.offsets[-1]].astype(dtype).tobytes())
            lengths.append(ids.lengths)

    sizes = np.concatenate(lengths).astype("<i4")
    offsets = np.cumsum([0, *sizes[:-1]], dtype="<i8") * np.dtype(dtype).itemsize
    documents = np.arange(len(sizes) + 1, dtype="<i8")

    with (folder / "rows.idx").open("wb") as file:
        file.write(_HEADER.pack(_MAGIC, _VERSION, code, len(sizes), len(documents)))
        for numbers in (sizes, offsets, documents):
            file.write(numbers.tobytes())


def _refuse_other_rows(shards: ShardSet) -> None:
    objective = shards.manifest.objective
    lists = [spec.name for spec in shards.columns if spec.kind == "list"]
    is_causal = (
        objective is not None
        and objective.architecture == "decoder"
        and objective.frame.predicts_next
    )
    if not is_causal or lists != ["input_ids"]:
        what = (
            shards.manifest.kind
            if objective is None
            else f"{objective.label} ({objective.architecture})"
        )
        raise ConfigurationError(
            f"{shards.path}: format=megatron holds token ids alone: expected rows of a decoder "
            "that predicts the next tokens, with the one list column input_ids, got "
            f"{what} with {', '.join(lists)}; choose another format"
        )
